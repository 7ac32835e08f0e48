"""Write the module pylite.op_words when pylite is built: words by which the modules of pylite.ops may register ops.

    python list_ops.py OUTPUT.py MODULE.py ...

A word too many costs an import at run time, and a word too few a search through all modules.
"""
import ast
import pathlib
import re
import sys


def words(source):
    """Capitalised and dotted words of the string constants in `source`, leaving out docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node.value for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings]
    return sorted({word for text in texts for word in re.findall(r"\b(?:[A-Z]\w+|\w+\.\w+)", text)})


if __name__ == "__main__":
    lines = ['"""Words by which modules of pylite.ops may register ops; made by _core/list_ops.py."""', "WORDS = {"]
    for path in map(pathlib.Path, sorted(sys.argv[2:])):
        found = words(path.read_text())
        if found:
            lines.append(f'    "{path.stem}": " {" ".join(found)} ",')
    pathlib.Path(sys.argv[1]).write_text("\n".join([*lines, "}", ""]))
