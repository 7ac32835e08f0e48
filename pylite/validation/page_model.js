"use strict";
// The sections of a model by itself: what it costs, its graph, its arena; and of called subgraphs.  page.js, which follows, has the tools.
const KINDS = {input: "blue", output: "green", temporary: "violet", scratch: "orange"};

function arena(map) {
  const label = b => `${b.name}: ${bytes(b.bytes)} at offset ${b.offset}, steps ${b.first} to ${b.last}`;
  const said = el("p", {class: "soft", role: "status"}, "Choose a block to see which tensor it is.");
  const steps = map.steps.length || 1, part = (x, whole) => 100 * x / (whole || 1) + "%";
  const picture = el("div", {class: "map"}, ...map.blocks.map(b => el("div", {
    style: `left: ${part(b.first, steps)}; width: ${part(b.last - b.first + 1, steps)}; bottom: ${part(b.offset, map.bytes)}; `
      + `height: ${part(b.bytes, map.bytes)}; background: var(--${KINDS[b.kind]})`,
    title: label(b), onclick: event => {
      picture.querySelectorAll(".on").forEach(x => x.classList.remove("on"));
      event.currentTarget.classList.add("on");
      said.textContent = label(b);
    }}, el("span", {}, b.kind === "input" ? b.name : "node " + map.steps[b.first]))));
  return [el("p", {}, `${bytes(map.bytes)} (lower bound ${bytes(map.bound)}). Left to right: the ${map.steps.length} steps of `
      + "one run; bottom to top: offsets in the arena. ", ...Object.entries(KINDS).map(([kind, name]) =>
      el("span", {class: "key"}, el("span", {style: `background: var(--${name})`}), kind))), picture, said,
    table("Blocks of the arena", [["tensor", b => b.name, tail], ["kind", b => b.kind], ["offset", b => b.offset, number(0)],
      ["bytes", b => b.bytes, bytes], ["first step", b => b.first, number(0)], ["last step", b => b.last, number(0)],
      ["first node", b => map.steps[b.first], number(0)]], map.blocks)];
}

// What a model costs, on top of its page
function costs() {
  const timed = graph.nodes.filter(n => known(n.seconds)).sort((a, b) => b.seconds - a.seconds);
  const memory = graph.arena.length ? graph.arena.reduce((sum, a) => sum + a.bytes, 0) : null;
  main.append(...graph.doubts.map(d => el("p", {class: "note"}, "Warning: " + d + ".")));
  main.append(el("div", {class: "tiles"},
    graph.latency ? tile(seconds(graph.latency.median), `one run, median of ${graph.latency.runs}`) : null,
    known(memory) ? tile(bytes(memory), "arena (RAM of the tensors)") : null, tile(bytes(graph.bytes), "file"),
    tile(bytes(graph.packed_bytes), "weights packed for the kernels"), tile(count(graph.macs), "MAC"),
    tile(text(graph.nodes.length), "nodes")));
  if (timed.length) section("slowest", "Slowest nodes", table("Slowest nodes", [["node", n => n.node, number(0)],
    ["time", n => n.seconds, seconds], ["share", n => n.share, share], ["op", n => n.op], ["shape", n => n.shape, shape],
    ["MAC", n => n.macs || null, count], ["result", n => n.name, tail]], timed.slice(0, 5)));
}

function model() {
  const timed = graph.nodes.filter(n => known(n.seconds));
  if (timed.length) section("time", "Time per node",
    el("p", {class: "soft"}, `${graph.threads} ${graph.threads === 1 ? "thread" : "threads"}; ${seconds(graph.latency.median)} for one run (median of `
      + `${graph.latency.runs}).` + (pair ? graph.doubts : []).map(d => " Warning: " + d + ".").join("")),
    barChart("Time of every node; the table of the graph has the numbers", "node", "time (\u00b5s)", timed.map(n => n.node),
      timed.map(n => n.seconds * 1e6), "blue"));
  const several = new Set(graph.nodes.map(n => n.subgraph)).size > 1;
  const lines = new Map();
  section("graph", "Graph", ...drawnGraph(lines), el("h3", {}, "As a table"), table("Graph", [...several ? [["subgraph", n => n.subgraph, number(0)]] : [],
    ["node", n => n.node, number(0)], ["op", n => n.op], ["result", n => n.name, tail], ["shape", n => n.shape, shape],
    ["type", n => n.dtype], ["quantization", n => n.quantization], ["stride, padding, activation", n => n.settings],
    ["MAC", n => n.macs || null, count], ["weights", n => n.weight_bytes || null, bytes],
    ...timed.length ? [["time", n => n.seconds, seconds], ["share", n => n.share, share]] : [], ["kernels", n => n.kernels]],
  graph.nodes, {lines}));
  if (graph.arena.length) section("arena", "Arena", ...graph.arena.flatMap(arena));
  section("sizes", "Sizes", pairs([["file", bytes(graph.bytes)], ["weights", bytes(graph.weight_bytes)],
      ["packed for the kernels", bytes(graph.packed_bytes)],
      ["arena", graph.arena.length ? bytes(graph.arena.reduce((sum, a) => sum + a.bytes, 0)) : ""]]),
    table("Sizes by op", [["op", o => o.op], ["nodes", o => o.count, number(0)], ["MAC", o => o.macs || null, count],
      ["weights", o => o.weight_bytes || null, bytes], ["results", o => o.result_bytes, bytes],
      ...timed.length ? [["timed", o => o.timed, number(0)], ["time", o => o.seconds, seconds], ["share", o => o.share, share]] : []],
      graph.by_op));
  if (graph.problems.length) section("problems", "Cannot run", el("ul", {}, ...graph.problems.map(p => el("li", {}, p))));
}

// The graph as rails: a row for each node in the order of execution, a lane for each result until its last use
const ROW = 28, LANE = 14;

function rails(title, nodes, ends, row) {
  const rows = [...ends.inputs.map(x => ({end: "input", ...x, outputs: [x.tensor], inputs: []})), ...nodes,
    ...ends.outputs.map(x => ({end: "output", ...x, inputs: [x.tensor], outputs: []}))];
  const maker = new Map(), last = rows.map(() => -1), lanes = [], held = [], sources = rows.map((r, i) => {
    const found = [...new Set(r.inputs.map(t => maker.get(t)).filter(known))];
    r.outputs.forEach(t => maker.set(t, i));
    found.forEach(p => { last[p] = i; });
    return found;
  });
  rows.forEach((r, i) => {
    const ended = sources[i].filter(p => last[p] === i).map(p => lanes[p]).sort((a, b) => a - b);
    ended.forEach(lane => { held[lane] = false; });
    let lane = ended[0];
    if (!known(lane)) for (lane = 0; held[lane]; lane++);
    lanes.push(lane);
    held[lane] = last[i] > i;
  });
  const wide = Math.max(...lanes) + 1, gap = Math.min(LANE, 140 / wide), x = i => 8 + gap * lanes[i], y = i => ROW * (i + .5);
  const svg = (tag, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const picture = svg("svg", {width: 16 + gap * (wide - 1), height: ROW * rows.length, "aria-hidden": "true"},
    ...sources.flatMap((from, i) => from.map(p => svg("path", {d: `M${x(p)} ${y(p)}V${y(i) - ROW * .8}`
      + `C${x(p)} ${y(i) - ROW * .3} ${x(i)} ${y(i) - ROW * .6} ${x(i)} ${y(i)}`}))),
    ...rows.map((r, i) => svg("circle", {cx: x(i), cy: y(i), r: 6, style: `fill: var(--${r.end ? "soft" : row(r).colour})`})));
  return el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": title + ", drawn"},
    el("div", {class: "rail"}, picture, el("ol", {}, ...rows.map(r => el("li", {class: r.end ? null : row(r).mark, style: `padding-left: ${24 + gap * (wide - 1)}px`},
      ...r.end ? [`${r.end} ${tail(r.name)}`, el("small", {}, `${r.dtype} ${shape(r.shape)}`)]
        : [el("button", {class: "go", title: r.name, onclick: row(r).go}, `node ${r.node}`), ` ${r.op}`,
          el("small", {}, [shape(r.shape), ...row(r).said].filter(known).join(" \u00b7 "))])))));
}

function drawnGraph(lines) {
  const found = new Map(), slowest = Math.max(...graph.nodes.map(n => n.share || 0));
  const worst = report && new Map(report.ranking.map(node => [node, tensors.filter(t => t.node === node)
    .reduce((a, b) => a[report.ranked_by] >= b[report.ranked_by] ? a : b)]));
  const row = n => {
    if (!found.has(n)) {
      const t = worst && !n.subgraph ? worst.get(n.node) : null, excess = t ? t[report.ranked_by] : null;
      const hot = worst ? excess >= limits.suspicious ? "poor" : excess >= limits.notable ? "fair" : t ? "good" : "soft"
        : n.share > .5 * slowest ? "poor" : n.share > .1 * slowest ? "fair" : "blue";
      found.set(n, {colour: hot, mark: hot === "poor" ? "mark" : null, go: () => t ? select(t) : goTo(lines.get(n)), said: [
        known(excess) && excess >= limits.notable ? `excess ${decibels(excess)} dB` : null,
        t && t.cause ? t.cause : null, n.share ? share(n.share) : null]});
    }
    return found.get(n);
  };
  const key = (name, words) => el("span", {class: "key"}, el("span", {style: `background: var(--${name})`}), words);
  const keys = worst ? [key("good", `excess below ${limits.notable} dB`), key("fair", `from ${limits.notable} dB on`),
    key("poor", `from ${limits.suspicious} dB on`), key("soft", "not compared")] : slowest ? [
    key("blue", "up to a tenth of the slowest node's time"), key("fair", "up to a half"), key("poor", "more")] : [];
  const parts = graph.ends.map((ends, i) => [graph.nodes.filter(n => n.subgraph === i), ends]);
  return [el("p", {class: "soft"}, "Top to bottom in the order of execution; a line leads from a result to each use. ", ...keys),
    ...parts.flatMap(([nodes, ends], i) => parts.length > 1
      ? [el("h3", {}, `Subgraph ${i}`), rails(`Subgraph ${i}`, nodes, ends, row)] : [rails("The graph", nodes, ends, row)])];
}

function goTo(line) {
  line.parentNode.querySelectorAll(".mark").forEach(x => x.classList.remove("mark"));
  line.classList.add("mark");
  line.scrollIntoView({block: "center"});
}

// A subgraph that a node calls
function subgraph(c, own) {
  const first = c.tensors.find(t => t.node === c.first_divergence);
  section(`called-${called.indexOf(c)}`, `${c.part[0].toUpperCase()}${c.part.slice(1)} of node ${c.node} (${c.op})`,
    el("p", {class: "soft"}, `Subgraph ${c.subgraph}, ${c.calls} call${c.calls === 1 ? "" : "s"}, each on what the reference's is given.`
      + (first ? ` First divergence: node ${first.node} (${first.op})${first.cause ? ": " + first.cause : ""}.` : "")),
    ...c.notes.map(note => el("p", {class: "note"}, note)),
    table(`Ranking of the nodes of subgraph ${c.subgraph}`, rankingColumns(c.ranked_by, own), c.tensors,
      {select, sort: 1, direction: "descending", mark: t => t === first}));
}
