"use strict";
// Names of tensors, files and classes are anybody's: they become text nodes and attributes, never markup.
const {report, sensitivity, graph, made, pictures, limits} = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main"), tensors = report ? report.tensors : [];
const within = r => (r && r.called || []).flatMap(c => [c, ...within(c)]);      // called subgraphs, at any depth
const called = within(report), listed = [...tensors, ...called.flatMap(c => c.tensors)];
const base = path => (path || "").split("/").pop();
const known = x => x !== null && x !== undefined;

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (known(value)) node.setAttribute(name, value);
  }
  node.append(...children.filter(known));
  return node;
}

function section(id, title, ...children) {
  document.querySelector("nav").append(el("a", {href: "#" + id}, title));
  main.append(el("section", {id, "aria-labelledby": id + "-title"}, el("h2", {id: id + "-title"}, title), ...children));
}

// Formats
const number = digits => x => known(x) ? x.toFixed(digits) : "";
const general = x => known(x) ? String(+x.toPrecision(4)) : "";
const share = x => known(x) ? (100 * x).toFixed(x && x < .1 ? 2 : 0) + " %" : "";
const decibels = x => !known(x) ? "exact" : x <= -60 ? "none" : x.toFixed(1);
const text = x => known(x) ? String(x) : "";
const tail = x => x && x.length > 44 ? "\u2026" + x.slice(-43) : text(x);     // the ends of tensors' names differ
const shape = x => x ? "[" + x.join(", ") + "]" : "";
function scaled(x, unit) {
  if (!known(x)) return "";
  for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "\u00b5"], [1e-9, "n"]])
    if (x >= factor) return +(x / factor).toPrecision(3) + " " + prefix + unit;
  return "0 " + unit;
}
const bytes = x => scaled(x, "B"), seconds = x => scaled(x, "s"), count = x => scaled(x, "").trim();

const FILTERED = 8, WIDE = 8;        // rows from which on a table can be filtered; columns from which on it fills the page

// A table that sorts by its headers and filters by words.  columns: [title, value of a row, format, explanation]
function table(name, columns, rows, options = {}) {
  const cell = (tag, column, attributes, child) =>
    el(tag, {class: [undefined, text, tail, shape].includes(column[2]) ? null : "n", ...attributes}, child);
  const body = el("tbody"), shown = el("output", {}), lines = rows.map(row => {
    const cells = columns.map((column, i) => {
      const value = column[1](row), said = (column[2] || text)(value);
      return cell("td", column, {title: column[2] === tail && said !== value ? value : null}, i || !options.select ? said :
        el("button", {class: "go", "aria-label": "Show tensor of node " + said, onclick: () => options.select(row)}, said));
    });
    const line = el("tr", {class: options.mark && options.mark(row) ? "mark" : null}, ...cells);
    if (options.lines) options.lines.set(row, line);
    return {row, line, words: columns.map(c => text(c[1](row)) + " " + (c[2] || text)(c[1](row))).join(" ").toLowerCase()};
  });
  const heads = columns.map((column, i) =>
    cell("th", column, {scope: "col"}, el("button", {title: column[3], onclick: () => sort(i)}, column[0])));
  function sort(i, direction) {
    const down = direction || (heads[i].getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
    heads.forEach((head, k) => k === i ? head.setAttribute("aria-sort", down) : head.removeAttribute("aria-sort"));
    const value = columns[i][1], sign = down === "ascending" ? 1 : -1;
    lines.sort((a, b) => {
      const x = value(a.row), y = value(b.row);
      if (!known(x) || !known(y)) return known(y) - known(x);
      return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", {numeric: true}));
    });
    body.append(...lines.map(l => l.line));
  }
  function filter() {
    const words = field.value.toLowerCase().split(/\s+/);
    let left = 0;
    for (const {line, words: own} of lines) left += !(line.hidden = !words.every(word => own.includes(word)));
    shown.textContent = left + " of " + lines.length;
  }
  const field = el("input", {type: "search", oninput: filter});
  body.append(...lines.map(l => l.line));
  filter();
  if (known(options.sort)) sort(options.sort, options.direction);
  return el("div", {}, rows.length < FILTERED ? null : el("div", {class: "controls"}, el("label", {}, "Filter ", field), shown),
    el("div", {class: columns.length < WIDE ? "scroll few" : "scroll", tabindex: 0, role: "region", "aria-label": name + ": table"},
      el("table", {"aria-label": name}, el("thead", {}, el("tr", {}, ...heads)), body)));
}

const tile = (value, what) => el("div", {}, el("strong", {}, value), what);
const numberOf = (count, noun) => tile(text(count), `${noun}${count === 1 ? "" : "s"} compared`);

// Text that may be broken after the separators of names and paths
const breakable = value => typeof value !== "string" ? [value]
  : value.split(/(?<=[/;])/).flatMap((part, i) => i ? [el("wbr"), part] : [part]);

function pairs(entries) {
  return el("dl", {}, ...entries.filter(([, value]) => known(value) && value !== "")
    .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, ...breakable(value))]));
}

// Charts, drawn again for another width or another colour scheme
const charts = new Set(), colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const faint = name => colour(name) + "59", {bars, stepped} = uPlot.paths;

function chart(label, make, kind = "") {
  const box = el("div", {class: "chart " + kind, role: "img", "aria-label": label});
  let plot, width = 0;
  const draw = () => {
    if (!box.isConnected || !box.clientWidth) return;
    if (plot) plot.destroy();
    width = box.clientWidth;
    const [options, values] = make(), axis = {stroke: colour("soft"), grid: {stroke: colour("line"), width: 1},
      ticks: {stroke: colour("line"), width: 1}, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif"};
    plot = new uPlot({width, height: 240, ...options, scales: {x: {time: false}, ...options.scales},
      cursor: {drag: {x: true, y: false}}, axes: options.axes.map(own => ({...axis, labelSize: 20, ...own}))}, values, box);
    if (options.choose) plot.over.addEventListener("click", () => known(plot.cursor.idx) && options.choose(plot.cursor.idx));
  };
  charts.add(draw);
  new ResizeObserver(() => box.clientWidth !== width && draw()).observe(box);
  return box;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw => draw()));

const whole = (u, axis, low, high, step) => {
  const found = [], by = Math.max(1, Math.round(step));
  for (let x = Math.ceil(low); x <= high; x += by) found.push(x);
  return found;
};
const series = (label, name, more) => ({label, stroke: colour(name), width: 2, ...more});
const column = (label, name) => series(label, name, {fill: faint(name), width: 1, paths: bars({size: [.9, 60]}), points: {show: false}});
const plain = x => known(x) ? general(x) : "\u2013";

function barChart(label, xLabel, yLabel, names, values, name) {
  return chart(label, () => [{
    series: [{label: xLabel, value: (u, x) => known(x) ? names[x] : ""}, {...column(yLabel, name), value: (u, y) => plain(y)}],
    scales: {x: {range: (u, low, high) => [low - .6, high + .6]},
      y: {range: (u, low, high) => [Math.min(0, low) * 1.05, Math.max(0, high) * 1.05 || 1]}},
    axes: [{label: xLabel, splits: whole, values: (u, at) => at.map(i => text(names[i]))},
      {label: yLabel, size: 62, values: (u, at) => at.map(general)}],
  }, [names.map((_, i) => i), values]]);
}

// Counts over bins, on a logarithmic axis; several histograms need the same width of bins
function histogram(label, xLabel, parts) {
  const {width} = parts[0][1], start = Math.min(...parts.map(p => p[1].start));
  const moved = parts.map(([, h]) => Math.round((h.start - start) / width));
  const bins = Math.max(...parts.map(([, h], i) => h.counts.length + moved[i])) + 1;
  const level = c => c ? Math.log10(c) : -.5;
  const ys = parts.map(([, h], i) => Array.from({length: bins}, (_, k) => level(h.counts[k - moved[i]])));
  return chart(label, () => [{
    series: [{label: xLabel, value: (u, x) => plain(x)}, ...parts.map(([title, , name], i) => series(title, name, {
      fill: i ? null : faint(name), fillTo: -.5, dash: i ? [5, 3] : [], paths: stepped({align: 1}), points: {show: false},
      value: (u, y) => known(y) ? count(Math.round(10 ** y)) : "\u2013"}))],
    scales: {y: {range: (u, low, high) => [-.5, Math.max(1, high * 1.05)]}},
    axes: [{label: xLabel, values: (u, at) => at.map(general)},
      {label: "count", size: 56, splits: whole, values: (u, at) => at.map(y => y < 0 ? "" : count(10 ** y))}],
  }, [Array.from({length: bins}, (_, k) => start + k * width), ...ys]]);
}

// The tensor that is chosen
const hundredfold = shares => shares && shares.map(x => 100 * x);
const MEASURES = [["SQNR of the node by itself (dB)", t => t.channels.sqnr_local_db],
  ["SQNR from the inputs on (dB)", t => t.channels.sqnr_db],
  ["RMSE (steps)", t => t.channels.rmse_over_scale], ["mean error (steps)", t => t.channels.mean_error_steps],
  ["largest error (steps)", t => t.channels.max_error_steps], ["range used (%)", t => hundredfold(t.channels.range_used)],
  ["saturated low (%)", t => hundredfold(t.channels.saturated_low)],
  ["saturated high (%)", t => hundredfold(t.channels.saturated_high)],
  ["weights: SQNR (dB)", t => t.weights && t.weights.sqnr_db],
  ["weights: size over the reference's", t => t.weights && t.weights.gain]];
const detail = el("div", {"aria-live": "polite"}), chooser = el("select", {onchange: () => show(listed[chooser.value])});
const channel = el("select", {onchange: () => show(listed[chooser.value])});

function select(tensor) {
  chooser.value = listed.indexOf(tensor);
  show(tensor);
  document.getElementById("tensor").scrollIntoView();
}

function show(t) {
  const has = MEASURES.filter(([, get]) => get(t)), wanted = channel.value;
  channel.replaceChildren(...has.map(([title]) => el("option", {value: title}, title)));
  if (has.some(([title]) => title === wanted)) channel.value = wanted;
  const measure = has.find(([title]) => title === channel.value), h = t.histograms;
  charts.clear();
  fixed.forEach(draw => charts.add(draw));
  detail.replaceChildren(
    el("h3", {}, `Node ${t.node}: ${t.op}`),
    t.cause ? el("p", {}, el("strong", {}, t.cause), `: ${t.detail}. ${t.remedy}`) : "",
    pairs([["tensor", `${t.tensor} ${t.name}`], ["reference", `${t.reference_name} (matched by ${t.matched})`],
      ["type", t.dtype], ["SQNR", decibels(t.sqnr_db) + (known(t.sqnr_db) ? " dB" : "") + (known(t.excess_db) ? ", by itself "
        + decibels(t.sqnr_local_db) + (known(t.sqnr_local_db) ? " dB" : "") : "")],
      ["error", known(t.rmse_over_scale) ? `RMSE ${general(t.rmse_over_scale)}, mean ${general(t.mean_error_steps)}, `
        + `largest ${general(t.max_error_steps)} steps (ideal rounding: RMSE 0.289)` : ""],
      ["saturated", known(t.saturated_low) ? `${share(t.saturated_low)} at the low end, ${share(t.saturated_high)} at the high end` : ""],
      ["range used", share(t.range_used)]]),
    h ? el("div", {class: "pair"},
      el("div", {}, el("h4", {}, "Values"), histogram(`Histograms of ${t.name} and of its reference`, "value",
        [["model", h.values, "blue"], ["reference", h.reference, "orange"]])),
      el("div", {}, el("h4", {}, "Error of the node by itself"), histogram(`Histogram of the error of ${t.name}`,
        known(t.rmse_over_scale) ? "error (steps)" : "error", [["elements", h.error, "violet"]]))) : "",
    measure ? el("div", {}, el("h4", {}, "By channel"),
      el("div", {class: "controls"}, el("label", {}, "Measure ", channel)),
      barChart(`${measure[0]} by channel of ${t.name}`, "channel", (/\((.*)\)/.exec(measure[0]) || ["", "ratio"])[1], measure[1](t).map((_, i) => i),
        measure[1](t), "green")) : "");
}

// What the numbers mean
function thresholds(own) {
  const {good, tiny, poor, notable, suspicious, loss} = limits, part = db => (100 * 10 ** (-db / 20)).toFixed(0) + " %";
  return el("details", {id: "thresholds"}, el("summary", {}, "What is good, what is bad"), pairs([
    ["SQNR", `Power of the signal over that of the error. From ${good} dB on (an error of ${part(good)} of the signal) `
      + `answers rarely change; below ${poor} dB (${part(poor)}) they often do. Between the two, measure the accuracy. `
      + `From ${tiny} dB on (${part(tiny)}) a model is good whatever its nodes do, unless it ends in a softmax, which hides errors.`],
    ["excess", `Noise above that of a good quantization of the same node. From ${notable} dB on a cause is looked for; `
      + `from ${suspicious} dB on the node diverges.`],
    ["local", own ? `SQNR of the node by itself, on the reference's activations. The chart ends at ${CEILING} dB.` : ""],
    ["RMSE", own ? "In steps of the tensor's scale: 0.289 is ideal rounding." : ""],
    ["accuracy", `A drop of more than ${loss} point is poor, unless McNemar's test says that it may be chance (p of 0.05 or more).`]]));
}

// Sections of a comparison
const rankingColumns = (by, own) => [
  ["node", t => t.node, number(0)], ["excess", t => t[by], decibels, "decibels above the noise of a good quantization"],
  ["op", t => t.op], ["SQNR", t => known(t.sqnr_db) ? t.sqnr_db : Infinity,
    x => x === Infinity ? "exact" : decibels(x), "decibels, both models run from their inputs"],
  ...own ? [["local", t => known(t.sqnr_local_db) ? t.sqnr_local_db : Infinity, x => x === Infinity ? "exact" : decibels(x),
    "decibels, of the node by itself"],
  ["weights", t => t.from_weights, share, "share of the noise that comes from the weights and the bias, not from activations"]] : [],
  ...own ? [["RMSE", t => t.rmse_over_scale, number(3), "in steps; 0.289 is ideal rounding"],
  ["mean", t => t.mean_error_steps, number(3), "mean error in steps"],
  ["largest", t => t.max_error_steps, number(2), "largest error in steps"],
  ["saturated", t => t.saturated_low + t.saturated_high, share, "share of the values at an end of the range"],
  ["range", t => t.range_used, share, "share of the range that the reference's values span"],
  ["cause", t => t.cause]] : [], ["tensor", t => t.name, tail]];
const CEILING = 80;     // decibels: what lies above is as good as exact
const clipped = x => known(x) ? Math.min(x, CEILING) : x;
function comparison() {
  const by = report.ranked_by, own = by === "excess_db";      // else nodes were not measured by themselves
  const worst = node => tensors.filter(t => t.node === node).reduce((a, b) => a[by] >= b[by] ? a : b);
  const first = report.first_divergence, outputs = tensors.filter(t => t.output);
  const where = known(first) ? worst(first) : null;
  const most = worst(report.ranking[0]), drop = report.accuracy.drop;
  main.append(el("div", {class: "tiles"},
    ...outputs.slice(0, 2).map(t => tile(decibels(t.sqnr_db) + (known(t.sqnr_db) ? " dB" : ""), `SQNR of ${tail(t.name)}`)),
    known(drop) ? tile(general(drop), `points that ${report.accuracy.main} drops`) : null,
    tile(`node ${most.node}`, `most noise${own ? "" : " (cumulative)"}: ${most.op}, ${decibels(most[by])} dB excess`),
    own && where && where !== most ? tile(`node ${first}`, `first divergence: ${where.op}`) : null,
    numberOf(report.samples, "sample"), numberOf(tensors.length, "tensor")), thresholds(own));
  main.append(...report.notes.map(note => el("p", {class: "note"}, note)));
  const causes = report.ranking.map(worst).filter(t => t.cause);
  const groups = new Map();       // by cause and remedy, in the order of the ranking
  for (const t of causes) groups.set(t.cause + t.remedy, [...groups.get(t.cause + t.remedy) || [], t]);
  const jump = t => el("button", {class: "go", onclick: () => select(t), title: t.name}, `node ${t.node}`);
  if (own) section("causes", "Causes", groups.size ? el("div", {class: "cards"}, ...[...groups.values()].map(([t, ...rest]) =>
    el("div", {class: t === most ? "first" : null}, el("h3", {class: "say"}, t.cause),
      el("p", {}, jump(t), ` ${t.op}: ${t.detail}.`), el("p", {}, el("small", {title: t.name}, tail(t.name))),
      el("p", {}, el("strong", {}, t.remedy)),
      rest.length ? el("details", {}, el("summary", {}, `${rest.length} more with this cause`),
        ...rest.map(r => el("p", {}, jump(r), ` ${r.op}: ${r.detail}.`))) : null)))
    : el("p", {}, "Every node's error is what rounding makes."));
  section("sqnr", "SQNR along the graph",
    el("p", {class: "soft"}, "Both models run from their inputs (cumulative)" + (own ? ", and each node by itself on the "
      + "reference's activations (local)" : "") + ". A node that is exact has no point; above " + CEILING + " dB points stay at the edge. Click a point to see its tensor."),
    chart("SQNR of every tensor in the order of execution; the table below has the numbers", () => [{
      series: [{label: "node", value: (u, i) => known(i) ? `${tensors[i].node} ${tensors[i].op}` : ""},
        series("cumulative", "blue", {points: {size: 7}, value: (u, y, s, i) => known(i) ? plain(tensors[i].sqnr_db) : "\u2013"}),
        ...own ? [series("local", "orange", {dash: [5, 3], points: {size: 7, fill: colour("orange")},
          value: (u, y, s, i) => known(i) ? plain(tensors[i].sqnr_local_db) : "\u2013"})] : []],
      scales: {x: {range: (u, low, high) => [low - .5, high + .5]}},
      choose: i => select(tensors[i]),
      hooks: {drawClear: [u => {
        const i = tensors.indexOf(where);
        if (i < 0) return;
        const at = u.valToPos(i - .5, "x", true);
        u.ctx.fillStyle = colour("mark");
        u.ctx.fillRect(at, u.bbox.top, Math.max(4, u.valToPos(i + .5, "x", true) - at), u.bbox.height);
      }]},
      axes: [{label: "node", splits: whole, values: (u, at) => at.map(i => tensors[i] ? text(tensors[i].node) : "")},
        {label: "SQNR (dB)", size: 50}],
    }, [tensors.map((_, i) => i), tensors.map(t => clipped(t.sqnr_db)), ...own ? [tensors.map(t => clipped(t.sqnr_local_db))] : []]]));
  section("ranking", "Ranking", el("p", {class: "soft"}, own ? "By the noise that a node adds itself, above that of a good "
      + "quantization of the same node (excess, dB; from 6 on it counts as diverging). The first divergence is marked."
      : "By cumulative errors: the noise above what a node's operands bring along and a good quantization of it adds "
      + "(excess, dB). Nodes by themselves were not measured (--local-samples)."),
    table("Ranking of nodes", rankingColumns(by, own), tensors, {select, sort: 1, direction: "descending", mark: t => t === where}));
  for (const c of called) subgraph(c, own);
  const place = t => called.filter(c => c.tensors.includes(t)).map(c => `${c.part}: `).join("");
  chooser.append(...listed.map((t, i) => el("option", {value: i}, `${place(t)}${t.node} ${t.op} ${tail(t.name)}`)));
  section("tensor", "Tensor", el("div", {class: "controls"}, el("label", {}, "Tensor ", chooser)), detail);
  if (report.unmatched.length) section("unmatched", "Not compared", table("Results that were not compared", [
    ["node", u => u.node, number(0)], ["op", u => u.op], ["of the", u => u.side], ["tensor", u => u.name, tail],
    ["reason", u => u.reason]], report.unmatched));
}

// Of samples by the confidence of the answer: how many are right
function calibration(a) {
  const sides = Object.entries(a.calibration).filter(([, bins]) => bins && bins.some(b => b.count));
  if (!sides.length) return;
  const bins = sides[0][1], middles = bins.map(b => (b.low + b.high) / 2), names = {model: "blue", reference: "orange"};
  const right = found => found.map(b => b.count ? b.accuracy : null);
  const percent = (u, at) => at.map(x => Math.round(100 * x) + " %");
  section("calibration", "Calibration", el("p", {class: "soft"}, "A model is calibrated if 70 % of the answers with a confidence "
      + "of 70 % are right: then its bars end at the line. The expected calibration error (ece) is the mean distance."),
    chart("Share of right answers by confidence; the table below has the numbers", () => [{
      series: [{label: "confidence", value: (u, x) => plain(x)}, ...sides.map(([side, found]) => series(side, names[side],
        side === "model" ? {fill: faint(names[side]), width: 1, paths: bars({size: [.9, 60]}), points: {show: false}, value: (u, y) => plain(y)}
          : {paths: () => null, points: {show: true, size: 9, fill: colour(names[side])}, value: (u, y) => plain(y)})),
      series("calibrated", "soft", {dash: [5, 3], width: 1, points: {show: false}, value: (u, y) => plain(y)})],
      scales: {x: {range: () => [0, 1]}, y: {range: () => [0, 1]}},
      axes: [{label: "confidence", values: percent}, {label: "right", size: 62, values: percent}],
    }, [middles, ...sides.map(([, found]) => right(found)), middles]], "square"),
    table("Calibration", [["of the", b => b.side], ["confidence from", b => b.low, general], ["to", b => b.high, general],
      ["samples", b => b.count, number(0)], ["mean confidence", b => b.count ? b.confidence : null, general],
      ["right", b => b.count ? b.accuracy : null, general]],
    sides.flatMap(([side, found]) => found.filter(b => b.count).map(b => ({side, ...b})))));
}

// Accuracy on labelled samples
function accuracy(a) {
  const name = i => known(i) ? a.labels[i] || String(i) : "\u2013", ends = x => x ? `${general(x[0])} to ${general(x[1])}` : "";
  const card = f => el("figure", {}, pictures && pictures[f.sample] ?
      el("img", {src: pictures[f.sample], alt: "sample " + f.sample}) : null,
    el("figcaption", {}, el("strong", {}, known(f.label) ? name(f.label) : `sample ${f.sample}`),
      ...["reference", "model"].filter(side => known(f.scores[side])).flatMap(side => [el("br"),
        `${side}: ${known(f[side]) ? name(f[side]) + ", " : ""}${general(f.scores[side])}`]),
      el("br"), el("small", {}, base(f.path) || `sample ${f.sample}`)));
  const m = a.mcnemar, best = a.metrics[a.main];
  section("accuracy", "Accuracy", el("div", {class: "tiles"}, tile(general(best.model), `${a.main} of the model`),
      known(best.reference) ? tile(general(best.reference), "of the reference") : null,
      known(a.drop) ? tile(general(a.drop), "points of drop") : null, tile(text(a.samples), `samples (${a.task})`)),
    table("Metrics", [["metric", x => x[0]], ["model", x => x[1].model, general], ["95 % interval", x => ends(x[1].interval)],
      ["reference", x => x[1].reference, general], ["95 % interval", x => ends(x[1].reference_interval)],
      ["method", x => x[1].method], ["better", x => x[1].better]], Object.entries(a.metrics)),
    m ? el("p", {}, `Right with one alone: ${m.reference_only} with the reference, ${m.model_only} with the model; `
      + `p = ${general(m.p)} (McNemar's test, ${m.method}).`) : null, ...a.notes.map(note => el("p", {class: "soft"}, note)));
  calibration(a);
  const cards = rows => el("div", {class: "cards small"}, ...rows.slice(0, 24).map(card));
  if (a.flips.length) section("flips", "Samples that flip", el("p", {class: "soft"}, `${a.flipped} differ; the worst first.`),
    cards(a.flips));
  if (a.worst.length) section("worst", "Worst samples", cards(a.worst));
  if (a.classes.length) section("classes", "Classes", table("Classes", [["class", c => c.class, number(0)], ["label", c => c.label],
    ["samples", c => c.count, number(0)], ["model", c => c.model, general], ["reference", c => c.reference, general]], a.classes));
  const confused = Object.entries(a.confusion).flatMap(([side, cells]) => (cells || []).map(cell => [side, ...cell]))
    .filter(c => c[1] !== c[2]);
  if (confused.length) section("confusion", "Confusion", table("Confused classes", [["of the", c => c[0]], ["label", c => name(c[1])],
    ["answer", c => name(c[2])], ["samples", c => c[3], number(0)]], confused, {sort: 3, direction: "descending"}));
}

// Nodes to keep in float
function regained(s) {
  const chosen = new Set(s.proposed), names = s.ranking.map(r => r.node);
  section("float", "Nodes to keep in float", el("p", {}, `${s.measure}: ${general(s.quantized)} as it is, ${general(s.reached)} with `
      + `${s.proposed.length} nodes in float, ${general(s.real)} with all; the target is ${general(s.target)}.`),
    s.order ? el("p", {id: "order"}, s.order) : null,
    barChart("What every node regains in float, the most first; the table below has the numbers", "node", "regained", names,
      s.ranking.map(r => r.regained), "blue"),
    table("Nodes by what they regain", [["node", r => r.node, number(0)], ["regained", r => r.regained, general], ["op", r => r.op],
      ...s.ranking.some(r => r.nodes.length > 1) ? [["nodes of the block", r => r.nodes.join(", "), tail]] : [], [s.measure, r => r.value, general],
      ["quantized alone", r => r.quantized_alone, general, "with every other node in float"],
      ["kept in float", r => chosen.has(r.node) ? "yes" : ""], ["tensor", r => r.names.join(", "), tail]], s.ranking,
    {mark: r => chosen.has(r.node)}));
}

// The verdict: its level gives the colour, its first word says the same
function verdict() {
  if (report) return report.verdict;
  if (sensitivity) {
    const s = sensitivity, unit = s.measure === "sqnr_db" ? " dB" : "", enough = s.reached >= s.target;
    const set = s.proposed.length === 1 ? `node ${s.proposed[0]}` : `${s.proposed.length} nodes`;
    return s.quantized >= s.target ? {level: "good", text: `Good: the model reaches ${general(s.target)}${unit} as it is.`}
      : enough ? {level: "fair", text: `Look closer: with ${set} in float the model reaches ${general(s.reached)}${unit}, `
        + `and ${general(s.quantized)}${unit} as it is.`}
      : {level: "poor", text: `Poor: no set of nodes in float reaches ${general(s.target)}${unit}.`};
  }
  if (graph.problems.length) return {level: "poor", text: "Cannot run: " + graph.problems[0]};
  const slow = graph.nodes.filter(n => n.share).sort((a, b) => b.share - a.share)[0];
  return {level: "plain", text: (graph.latency ? `One run takes ${seconds(graph.latency.median)} on ${graph.threads} `
    + `${graph.threads === 1 ? "thread" : "threads"}` : "Times were not measured") + (graph.arena.length ? ` and ${bytes(
    graph.arena.reduce((sum, a) => sum + a.bytes, 0))} of memory for its tensors` : "") + "."
    + (slow ? ` Node ${slow.node} (${slow.op}) takes the most, ${share(slow.share)} of the time.` : "")};
}

const pair = report || sensitivity, subject = base(pair ? pair.model : graph.file);
document.title = `${subject} - pylite report`;
document.querySelector("h1").textContent = subject;
const {level, text: sentence} = verdict(), colon = level === "plain" ? 0 : sentence.indexOf(":") + 1;
document.querySelector(".verdict").classList.add(level);
document.querySelector(".verdict").append(el("strong", {}, sentence.slice(0, colon)), sentence.slice(colon));
document.querySelector("header p.soft").textContent = !pair ? `${bytes(graph.bytes)}, ${graph.nodes.length} nodes, ${count(graph.macs)} MAC`
  : !pair.reference ? "" : pair.precision ? `in ${pair.precision}, against ${base(pair.reference)} in float32`
  : `against ${base(pair.reference)}`;
if (!pair) costs();
if (sensitivity) regained(sensitivity);
if (tensors.length) comparison();
if (report && report.accuracy.metrics) accuracy(report.accuracy);
if (graph) model();
section("made", "How it was made", pairs(Object.entries(made)));
const fixed = [...charts];
if (tensors.length) {
  chooser.value = Math.max(0, tensors.findIndex(t => t.node === report.ranking[0]));       // the node that the verdict names
  show(tensors[chooser.value]);
}
