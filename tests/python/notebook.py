"""Executes the notebooks of examples/ with nbclient, in a folder of its own: usage: notebook.py

The first cell must give a table (a DataFrame) and a figure."""
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[2]

for path in sorted((ROOT / "examples").glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = {kind for output in cells[0].outputs for kind in output.get("data", {})}
    if not {"text/html", "image/png"} <= kinds:
        sys.exit(f"{path.name}: the first cell gives {sorted(kinds)}, not a table and a figure")
    print(f"{path.name}: {len(cells)} cells")
