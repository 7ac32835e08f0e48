"""The graph of a model as a picture: Mermaid text, or SVG."""
import html
from collections import Counter

from pylite.cli import _format, _nodes
from pylite.cli._terminal import printable

WIDTH, HEIGHT, GAP_X, GAP_Y = 250, 46, 24, 26      # of a box in the SVG, and between boxes


def _parts(subgraph):
    """({key: lines of its box}, [(key of the source, key of the reader, type and shape)]) without constants."""
    boxes, edges, source = {}, [], {}
    tensors = subgraph["tensors"]
    for index in subgraph["inputs"]:
        source[index] = f"in{index}"
        boxes[source[index]] = [_format.shortened(tensors[index]["name"], _nodes.NAME), "input"]
    for node in subgraph["operators"]:
        key = f"n{node['index']}"
        boxes[key] = [f"{node['index']} {node['name']}", _nodes.settings(node)]
        edges += [(source[i], key, _type(tensors[i], node)) for i in node["inputs"] if i in source]
        source |= dict.fromkeys(node["outputs"], key)
    for index in subgraph["outputs"]:
        boxes[f"out{index}"] = [_format.shortened(tensors[index]["name"], _nodes.NAME), "output"]
        if index in source:
            edges.append((source[index], f"out{index}", _type(tensors[index])))
    return boxes, edges


def escape(text):
    """Text for XML and Mermaid, on one line."""
    return html.escape(printable(text.replace("\n", " ")))


def _type(tensor, node=None):
    shape = tensor["shape"] if node is None else node["shapes"].get(tensor["index"], tensor["shape"])
    return f"{tensor['dtype']}{_format.shape(shape)}"


def mermaid(subgraph):
    """A Mermaid flowchart."""
    boxes, edges = _parts(subgraph)
    lines = ["flowchart TD"]
    lines += [f'  {key}["{"<br>".join(escape(line) for line in text if line)}"]' for key, text in boxes.items()]
    lines += [f'  {a} -->|"{label}"| {b}' for a, b, label in edges]
    return "\n".join([*lines, ""])


def svg(subgraph):
    """An SVG picture: boxes in rows by their distance from the inputs."""
    boxes, edges = _parts(subgraph)
    rank = dict.fromkeys(boxes, 0)
    for a, b, _ in edges:           # in the order of execution, so that the rank of `a` is final
        rank[b] = max(rank[b], rank[a] + 1)
    filled, places = Counter(), {}
    for key in boxes:
        places[key] = GAP_X + filled[rank[key]] * (WIDTH + GAP_X), GAP_Y + rank[key] * (HEIGHT + GAP_Y)
        filled[rank[key]] += 1
    width = GAP_X + max(filled.values(), default=0) * (WIDTH + GAP_X)
    height = GAP_Y + (max(rank.values(), default=0) + 1) * (HEIGHT + GAP_Y)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             'font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for a, b, label in edges:
        x1, y1, x2, y2 = places[a][0] + WIDTH // 2, places[a][1] + HEIGHT, places[b][0] + WIDTH // 2, places[b][1]
        lines.append(f'<path d="M{x1} {y1} C{x1} {y1 + GAP_Y} {x2} {y2 - GAP_Y} {x2} {y2}" fill="none" stroke="gray">'
                     f"<title>{escape(label)}</title></path>")
        if rank[b] == rank[a] + 1:
            lines.append(f'<text x="{x1 + 5}" y="{y1 + 16}" fill="gray" font-size="10">{escape(label)}</text>')
    for key, text in boxes.items():
        x, y = places[key]
        fill = "#dbe9f6" if key[0] == "n" else "#e5f2df"
        lines.append(f'<g><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{fill}" '
                     'stroke="black"/>')
        lines += [f'<text x="{x + WIDTH // 2}" y="{y + 19 + 16 * i}" text-anchor="middle">{escape(line)}</text>'
                  for i, line in enumerate(text)]
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])
