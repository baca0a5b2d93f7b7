"""Rows as a pandas DataFrame where pandas is installed, otherwise as a list of dicts that a notebook shows as a table."""
from __future__ import annotations

import html
from typing import Any, Iterable

try:
    import pandas
except ImportError:
    pandas = None


class Rows(list):
    """A list of dicts with the same keys."""

    def _repr_html_(self) -> str:
        return html_table(self)


def table(rows: Iterable[dict[str, Any]], columns: Iterable[str] = ()) -> Any:
    """A DataFrame, or Rows without pandas. `columns` are those of a table without rows."""
    rows = list(rows)
    if pandas is None:
        return Rows(rows)
    return pandas.DataFrame(rows, columns=None if rows else list(columns))


def _cell(value: Any) -> str:
    if value is None:
        return "&ndash;"
    if isinstance(value, float):
        return f"{value:.4g}"
    return html.escape(str(value))


def html_table(rows: list[dict[str, Any]], columns: Iterable[str] | None = None) -> str:
    """The rows as an HTML table; all text is escaped."""
    names = list(columns) if columns is not None else list(rows[0]) if rows else []
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
