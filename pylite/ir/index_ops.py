"""Write the module pylite.ops._index when pylite is built: which module registers which op.

    python index_ops.py OUTPUT.py DEPFILE FOLDER

The names are parsed from the source of the modules, which cannot be imported before the build: the first argument of
register() is a string, or the variable of a loop over a literal, whose items are strings or tuples that begin with one.
"""
import ast
import sys
from pathlib import Path


def registered(source, file="<module>"):
    """The names that a module with the source text `source` registers.  SyntaxError if a name cannot be determined."""
    tree = ast.parse(source)
    constants = {node.targets[0].id: node.value for node in tree.body
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    result = []
    for statement in tree.body:
        loops = {}
        if isinstance(statement, ast.For):
            target = statement.target.elts[0] if isinstance(statement.target, ast.Tuple) else statement.target
            loops[target.id] = _items(statement.iter, constants)  # type: ignore[attr-defined]
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "register":
                names = _names(call.args[0], loops, constants)
                if names is None:
                    raise SyntaxError(f"{file}:{call.lineno}: register() needs a name that can be read from the text: "
                                      "a string, or a loop's variable over a literal")
                result += names
    return result


def _names(node, loops, constants):
    if isinstance(node, ast.Name):
        return loops[node.id] if node.id in loops else _names(constants.get(node.id), {}, {})
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _items(iterated, constants):
    """The strings that a loop iterates over, or None: literals, their first items, or the keys of a dictionary."""
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute) and iterated.func.attr == "items":
        iterated = constants.get(getattr(iterated.func.value, "id", None))
    nodes = iterated.keys if isinstance(iterated, ast.Dict) else getattr(iterated, "elts", [None])
    nodes = [node.elts[0] if isinstance(node, ast.Tuple) else node for node in nodes]
    names = [_names(node, {}, {}) for node in nodes]
    return None if None in names else [name for group in names for name in group]


def index(files):
    """The source of pylite.ops._index: MODULES, {op: module}."""
    modules = {name: file.stem for file in files for name in registered(file.read_text(), file)}
    return "\n".join(['"""Which module registers which op; made by ir/index_ops.py."""', "MODULES = {",
                      *[f'    "{name}": "{module}",' for name, module in sorted(modules.items())], "}", ""])


if __name__ == "__main__":
    output, depfile, folder = map(Path, sys.argv[1:])
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    output.write_text(index(files))
    inputs = " ".join(str(path).replace(" ", r"\ ") for path in [folder, *files])       # the folder, for new modules
    depfile.write_text(f"{output}: {inputs}\n")
