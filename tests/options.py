"""The program refuses an option that is given twice; tests take common settings and replace some of them."""
import os

FLAGS = {"--json", "--quiet", "--plot", "--dry-run", "--keep-going", "--fail-fast", "--best", "--curves", "--bounds",
         "--lipschitz", "--mask-stability"}


def last_wins(words):
    """The words without options that are given again later."""
    parts = []  # (name or None, the words that belong together)
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = os.fsdecode(word) if isinstance(word, (str, bytes)) else str(word)
        if not text.startswith("--") or text == "--":
            parts.append((None, [word]))
        elif "=" in text or text in FLAGS or not rest:
            parts.append((text.split("=")[0], [word]))
        else:
            parts.append((text, [word, rest.pop(0)]))
    last = {name: i for i, (name, _) in enumerate(parts)}
    return [word for i, (name, group) in enumerate(parts) if name is None or last[name] == i for word in group]
