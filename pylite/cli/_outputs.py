"""The files that `pylite report` and `pylite validate` write: pages, and node data for Model Explorer."""
import json
import shlex

GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff9d5c"}]       # from the least to the most

def add(parser, what):
    """Options for files; what: the overlay's values."""
    parser.add_argument("--html", metavar="FILE", help="write a page with charts; needs pylite-runtime[validate]")
    parser.add_argument("--explorer", metavar="FILE", help=f"write {what} as node data (JSON) for Model Explorer")


def check(args):
    """Errors that would come after a long run, before it."""
    if args.html:
        from pylite.validation import page
        page.library()
    for path in (args.html, args.explorer):
        if path:
            open(path, "a").close()


def write_page(args, data):
    """Write the page of `data`; `made` is added."""
    from pylite.cli import _board
    from pylite.validation import page
    made = page.made("pylite " + shlex.join(args.argv))
    machine = _board.machine()
    made["machine"] += f", {machine['cores']} core(s), {machine['cpu']}"
    with open(args.html, "w", encoding="utf-8") as file:
        file.write(page.page({**data, "made": made}))


def write_overlay(path, model, name, values, **colours):
    """Node data for Model Explorer on the main graph of the model (a path).

    values: {node: number}; colours: Model Explorer's `thresholds` or `gradient`.
    """
    from pylite.runtime.model import Model
    graph = Model(model).graph
    keys = [signature.key for signature in graph.signatures if signature.subgraph == 0]
    shown_as = graph.subgraphs[0].name or (keys or ["main"])[0]     # in Model Explorer
    results = {str(node): {"value": value} for node, value in values.items()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({shown_as: {"name": name, "results": results, **colours}}, file, indent=2)
