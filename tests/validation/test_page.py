"""The HTML report in a real browser: it draws, sorts, filters, breaks no rule of accessibility, trusts no name."""
import importlib.util
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.errors import FileFormatError
from pylite.media import images, models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import page
from pylite.validation.accuracy_report import Accuracy, Flip, Metric
from tests.tools import browser, resources
from tests.validation import planted, test_called

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>&lt;{{data}}"
SPOILED = 4
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def chromium():
    with browser.browser() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A spoiled model, its reference and samples; the results of the spoiled nodes have a hostile name."""
    resources.tool("uplot")
    place = tmp_path_factory.mktemp("page")
    for name in ("good.tflite", "spoiled.tflite"):
        model = read(models.path("digits").read_bytes())
        subgraph = model.subgraphs[0]
        weights = next(t for t in subgraph.tensors if t.name == "trunk/4/weights")
        if name == "spoiled.tflite":
            weights.quantization.scale = weights.quantization.scale.copy()
            weights.quantization.scale[7] *= 3
        subgraph.tensors[subgraph.operators[SPOILED].outputs[0]].name = HOSTILE
        (place / name).write_bytes(write(model))
    samples = planted.samples(Model(place / "good.tflite"), 6)
    np.savez(place / "data.npz", np.concatenate([arrays[0] for arrays in samples]))
    return place


@pytest.fixture(scope="module")
def validated(folder):
    """The page and the overlay of `pylite validate`."""
    assert cli.main(["validate", str(folder / "spoiled.tflite"), "--reference", str(folder / "good.tflite"), "--data",
                     str(folder / "data.npz"), "--html", str(folder / "v.html"), "--explorer",
                     str(folder / "v.json")]) == 0
    return folder / "v.html"


@pytest.fixture(scope="module")
def reported(folder):
    """The page of `pylite report`."""
    assert cli.main(["report", str(folder / "good.tflite"), "--seconds", "0.02", "--html", str(folder / "r.html")]) == 0
    return folder / "r.html"


@pytest.fixture(scope="module")
def answered(folder):
    """The page of a report with the accuracy of both models."""
    report = validation.compare(folder / "spoiled.tflite", folder / "good.tflite", folder / "data.npz")
    flips = [Flip(3, "a/three.png", 0, 0, 1, {"model": 0.6, "reference": 0.9}, 0.5),
             Flip(5, None, 1, 1, 0, {"model": 0.7, "reference": 0.8}, 0.4)]
    report.accuracy = Accuracy(
        "classification", 6, "top-1", [HOSTILE, "one"], {"top-1": Metric(0.5, 0.9, (0.3, 0.7), (0.8, 1.0), "Wilson")},
        [{"class": 0, "label": HOSTILE, "count": 3, "model": 0.5, "reference": 1.0}],
        {"model": [[0, 1, 2], [0, 0, 3]], "reference": [[0, 0, 5]]},
        {side: [{"low": i / 15, "high": (i + 1) / 15, "count": 3 * (i > 9),
                 "confidence": i / 15 + 0.03 if i > 9 else None, "accuracy": right if i > 9 else None}
                for i in range(15)]
         for side, right in (("model", 0.5), ("reference", 0.9))},
        mcnemar={"reference_only": 2, "model_only": 0, "statistic": None, "p": 0.5, "method": "exact binomial"},
        flipped=2, flips=flips, worst=flips[:1], notes=[HOSTILE])
    picture = page.picture(np.arange(64, dtype=np.uint8).reshape(8, 8, 1))
    text = page.page({"report": report.to_dict(), "made": page.made(), "pictures": {3: picture}})
    (folder / "a.html").write_text(text, encoding="utf-8")
    return folder / "a.html"


@pytest.mark.parametrize(("size", "scheme"), [(browser.DESKTOP, "light"), (browser.PHONE, "dark")])
@pytest.mark.parametrize("name", ["validated", "reported", "answered"])
def test_a_page_is_drawn_fits_and_is_accessible(chromium, request, name, size, scheme):
    with browser.opened(chromium, request.getfixturevalue(name), size, scheme) as shown:
        assert shown.locator(".chart canvas").count() == {"validated": 4, "reported": 1, "answered": 3}[name]
        assert browser.blank_charts(shown) == []
        assert browser.overhang(shown) <= 0
        assert browser.violations(shown) == []


@pytest.mark.parametrize(("size", "scheme"), [(browser.DESKTOP, "light"), (browser.PHONE, "dark")])
def test_a_page_without_nodes_by_themselves_says_what_it_ranks_by(chromium, folder, size, scheme):
    target = folder / "cumulative.html"
    assert cli.main(["validate", str(folder / "spoiled.tflite"), "--reference", str(folder / "good.tflite"), "--data",
                     str(folder / "data.npz"), "--local-samples", "0", "--html", str(target)]) == 0
    with browser.opened(chromium, target, size, scheme) as shown:
        assert "By cumulative errors" in shown.locator("#ranking").text_content()
        assert int(browser.column(shown, "Ranking of nodes", 1)[0]) == SPOILED
        assert shown.locator("#causes").count() == 0
        assert f"Node {SPOILED}: DEPTHWISE_CONV_2D" in shown.locator("#tensor").text_content()
        words = shown.evaluate("document.querySelector('main').innerText")
        assert not re.search(r"\b(undefined|NaN|false|null)\b", words)
        assert browser.blank_charts(shown) == [] and browser.overhang(shown) <= 0 and browser.violations(shown) == []


@pytest.mark.parametrize(("size", "scheme"), [(browser.DESKTOP, "light"), (browser.PHONE, "dark")])
def test_a_called_subgraph_has_a_section_of_its_own(chromium, folder, size, scheme):
    pair = [test_called.write(folder / f"loop_{name}.tflite", test_called.loop(factor > 0, factor))
            for name, factor in (("int8", 2), ("float", 0))]
    np.savez(folder / "loop.npz", test_called.sample())
    target = folder / "loop.html"
    assert cli.main(["validate", str(pair[0]), "--reference", str(pair[1]), "--data", str(folder / "loop.npz"),
                     "--html", str(target)]) == 0
    with browser.opened(chromium, target, size, scheme) as shown:
        section = shown.locator("#called-0").text_content()
        assert "Body of node 0 (WHILE)" in section and "First divergence: node 1 (FULLY_CONNECTED): weight" in section
        assert browser.column(shown, "Ranking of the nodes of subgraph 2", 1) == ["1", "2"]
        assert "body: 1 FULLY_CONNECTED sums" in shown.locator("#tensor option").all_text_contents()
        shown.locator("#called-0 tbody tr").first.locator("button, th, td").first.click()
        assert "Node 1: FULLY_CONNECTED" in shown.locator("#tensor").text_content()
        assert browser.blank_charts(shown) == [] and browser.overhang(shown) <= 0 and browser.violations(shown) == []


def test_the_verdict_is_the_first_line(chromium, validated, reported):
    for page_of, level, words in ((validated, "poor", f"Most noise comes from node {SPOILED} (DEPTHWISE_CONV_2D)"),
                                  (reported, "plain", "One run takes")):
        with browser.opened(chromium, page_of) as shown:
            first = shown.locator("body *:not(header)").first
            assert f"verdict {level}" == first.get_attribute("class") and words in first.text_content()
    with browser.opened(chromium, reported) as shown:
        assert len(browser.column(shown, "Slowest nodes", 1)) == 5


def test_the_drawn_graph_has_every_node_and_leads_to_its_tensor(chromium, validated, reported):
    with browser.opened(chromium, validated, browser.PHONE) as shown:
        rows = shown.locator("#graph .rail li")
        assert rows.count() == 12 and "input image" in rows.first.text_content()
        assert shown.locator("#graph .rail path").count() == 11
        assert shown.locator("#graph .rail li.mark button").all_text_contents() == [f"node {SPOILED}"]
        shown.locator("#graph .rail button", has_text="node 8").press("Enter")
        assert "Node 8: FULLY_CONNECTED" in shown.locator("#tensor").text_content()
    with browser.opened(chromium, reported) as shown:
        shown.locator("#graph .rail button", has_text="node 5").press("Enter")
        assert shown.locator("table[aria-label='Graph'] tr.mark td").first.text_content() == "5"


def test_lanes_of_a_residual_block_do_not_meet(chromium, tmp_path):
    """Results that live at the same time have lanes of their own, and a free lane serves again."""
    m = ModelBuilder()
    tensors = [m.tensor(name, (1, 3)) for name in "xabcd"]
    for op, inputs, output in (("ABS", [0], 1), ("NEG", [1], 2), ("ADD", [1, 2], 3), ("ADD", [0, 3], 4)):
        m.operator(op, [tensors[i] for i in inputs], [tensors[output]])
    m.inputs(tensors[:1])
    m.outputs(tensors[4:])
    path, target = tmp_path / "m.tflite", tmp_path / "m.html"
    path.write_bytes(m.build())
    assert cli.main(["report", str(path), "--seconds", "0.01", "--html", str(target)]) == 0
    with browser.opened(chromium, target) as shown:
        x = shown.locator(".rail circle").evaluate_all("all => all.map(one => +one.getAttribute('cx'))")
        assert x[0] == x[4] == x[5] < x[1] == x[3] < x[2]


def test_cards_are_grouped_by_cause_in_the_order_of_the_ranking(chromium, folder):
    report = validation.compare(folder / "spoiled.tflite", folder / "good.tflite", folder / "data.npz")
    for node, cause in ((8, "one"), (2, "other"), (5, "one")):
        tensor = report.by_node(node)
        tensor.cause, tensor.detail, tensor.remedy = cause, f"of node {node}", f"Mend {cause}."
    (folder / "g.html").write_text(report.to_html(), encoding="utf-8")
    with browser.opened(chromium, folder / "g.html", browser.PHONE) as shown:
        assert shown.locator("#causes h3").all_text_contents() == ["channel scale", *(
            report.by_node(node).cause for node in report.ranking if node in (8, 2))]
        card = shown.locator("#causes .cards > div", has_text="Mend one.")
        card.locator("summary").press("Enter")
        assert sorted(card.locator("button:visible").all_text_contents()) == ["node 5", "node 8"]
        shown.locator("#thresholds summary").press("Enter")
        assert "From 30 dB on" in shown.locator("#thresholds dd").first.inner_text()
        assert browser.violations(shown) == [] and browser.overhang(shown) <= 0


@pytest.mark.parametrize("name", ["validated", "reported", "answered"])
def test_names_are_text(chromium, request, name):
    with browser.opened(chromium, request.getfixturevalue(name)) as shown:
        assert shown.evaluate("window.hacked") is None
        assert shown.locator("img[src=x]").count() == 0
        assert HOSTILE in shown.evaluate("document.body.innerText") or any(
            HOSTILE in title for title in shown.locator("[title]").evaluate_all("all => all.map(one => one.title)"))


def test_tables_sort_and_filter(chromium, validated):
    with browser.opened(chromium, validated) as shown:
        ranking = "Ranking of nodes"
        assert int(browser.column(shown, ranking, 1)[0]) == SPOILED
        head = shown.locator(f"table[aria-label='{ranking}'] th").nth(0)
        for order, reverse in (("ascending", False), ("descending", True)):
            head.locator("button").click()
            assert head.get_attribute("aria-sort") == order
            nodes = [int(node) for node in browser.column(shown, ranking, 1)]
            assert nodes == sorted(nodes, reverse=reverse) and len(nodes) == 10
        shown.locator("#ranking input").fill("conv_2d channel")
        assert browser.column(shown, ranking, 1) == [str(SPOILED)]
        assert "1 of 10" in shown.locator("#ranking").text_content()
        assert shown.locator("#sizes input").count() == 0       # six rows need none
        shown.locator("#ranking input").fill("")
        assert len(browser.column(shown, ranking, 1)) == 10


def test_a_tensor_and_a_measure_are_chosen(chromium, validated):
    with browser.opened(chromium, validated) as shown:
        assert f"Node {SPOILED}: DEPTHWISE_CONV_2D" in shown.locator("#tensor").text_content()
        shown.locator("#ranking button[aria-label='Show tensor of node 8']").click()
        assert "Node 8: FULLY_CONNECTED" in shown.locator("#tensor").text_content()
        shown.get_by_label("Measure").select_option("RMSE (steps)")
        assert "RMSE (steps) by channel of head0/0" in shown.locator("#tensor .chart").last.get_attribute("aria-label")
        assert browser.blank_charts(shown) == []


def test_the_tensor_shown_first_is_that_of_the_verdict(chromium, folder):
    """Also where an earlier node is the first to diverge."""
    report = validation.compare(folder / "spoiled.tflite", folder / "good.tflite", folder / "data.npz")
    report.first_divergence = 0
    (folder / "f.html").write_text(report.to_html(), encoding="utf-8")
    with browser.opened(chromium, folder / "f.html") as shown:
        assert report.ranking[0] == SPOILED
        assert f"Node {SPOILED}: DEPTHWISE_CONV_2D" in shown.locator("#tensor").text_content()


def test_a_point_of_the_chart_and_a_block_of_the_arena_are_chosen(chromium, validated):
    with browser.opened(chromium, validated) as shown:
        area = shown.locator("#sqnr .u-over")
        area.click(position={"x": 5, "y": 20})
        assert "Node 0: CONV_2D" in shown.locator("#tensor").text_content()
        labels = shown.locator(".map div").all_text_contents()
        assert len(labels) > 5 and all(re.fullmatch(r"image|node \d+", label) for label in labels)
        shown.locator(".map div", has_text="image").click()
        assert "image: 64 B at offset" in shown.locator("#arena [role=status]").text_content()


def test_samples_that_flip_are_shown(chromium, answered):
    with browser.opened(chromium, answered) as shown:
        cards = shown.locator("#flips figure")
        assert cards.count() == 2 and "three.png" in cards.nth(0).text_content()
        assert cards.nth(0).locator("img").evaluate("image => image.naturalWidth") == 8
        assert "reference: one" in cards.nth(1).text_content() and cards.nth(1).locator("img").count() == 0
        assert "2 with the reference, 0 with the model" in shown.locator("#accuracy").text_content()
        assert browser.column(shown, "Confused classes", 4) == ["2"]


def test_the_calibration_is_drawn(chromium, answered):
    with browser.opened(chromium, answered) as shown:
        assert shown.locator("#calibration canvas").count() == 1
        assert browser.column(shown, "Calibration", 1) == ["model"] * 5 + ["reference"] * 5
        assert browser.column(shown, "Calibration", 6) == ["0.5"] * 5 + ["0.9"] * 5


@pytest.mark.parametrize("kind", ["files", "arrays"])
def test_flipped_samples_of_files_and_arrays_have_thumbnails(folder, chromium, kind):
    data, target = folder / f"labelled_{kind}", folder / f"{kind}.html"
    pixels = np.stack([images.read(models.sample(name)) for name in models.samples()])
    rng = np.random.default_rng(0)
    pixels = np.clip(pixels + rng.normal(0, 90, (20, *pixels.shape)), 0, 255).astype(np.uint8).reshape(-1, 8, 8, 1)
    labels = list(range(10)) * 20
    if kind == "files":
        for i, (one, label) in enumerate(zip(pixels, labels, strict=True)):
            (data / str(label)).mkdir(parents=True, exist_ok=True)
            images.write(data / str(label) / f"{i}.pgm", one)
    else:
        data = folder / "labelled.npz"
        np.savez(data, image=pixels / np.float32(255), labels=labels)
    assert cli.main(["validate", str(folder / "spoiled.tflite"), "--reference", str(folder / "good.tflite"), "--data",
                     str(data), "--mean", "0", "--std", "255", "--accuracy", "--tensors", "2", "--html",
                     str(target)]) == 0
    with browser.opened(chromium, target, browser.PHONE) as shown:
        cards = shown.locator("#flips figure")
        assert cards.count() > 0
        assert cards.locator("img").evaluate_all("all => all.map(image => image.naturalWidth)") == [8] * cards.count()
        rows = list(map(int, browser.column(shown, "Calibration", 4)))
        assert sum(rows) == 2 * len(labels) and browser.blank_charts(shown) == []
        assert browser.overhang(shown) <= 0 and browser.violations(shown) == []


def test_a_model_without_a_reference_has_a_page(folder, chromium):
    data, target = folder / "alone.npz", folder / "alone.html"
    np.savez(data, image=np.load(folder / "data.npz")["arr_0"], labels=np.arange(6))
    assert cli.main(["validate", str(folder / "spoiled.tflite"), "--data", str(data), "--html", str(target)]) == 0
    with browser.opened(chromium, target) as shown:
        assert len(browser.column(shown, "Metrics", 1)) > 2 and shown.locator("#ranking").count() == 0
        assert shown.locator("#worst figure img").count() > 0
        assert browser.violations(shown) == []


def test_nodes_to_keep_in_float_are_shown(folder, chromium):
    target = folder / "s.html"
    assert cli.main(["validate", str(folder / "spoiled.tflite"), "--reference", str(folder / "good.tflite"), "--data",
                     str(folder / "data.npz"), "--sensitivity", "--target", "15dB", "--html", str(target), "--explorer",
                     str(folder / "s.json")]) == 0
    with browser.opened(chromium, target, browser.PHONE) as shown:
        table = "Nodes by what they regain"
        assert column_of(shown, table, SPOILED, 6) == "yes"
        assert browser.blank_charts(shown) == [] and browser.overhang(shown) <= 0 and browser.violations(shown) == []
        assert shown.evaluate("window.hacked") is None
    graph = json.loads((folder / "s.json").read_text())["main"]
    assert max(graph["results"], key=lambda node: graph["results"][node]["value"]) == str(SPOILED)


def column_of(shown, table, node, number):
    """The text of a cell in the row of a node."""
    return dict(zip(map(int, browser.column(shown, table, 1)), browser.column(shown, table, number),
                    strict=True))[node]


def test_the_page_says_how_it_was_made(validated, chromium):
    with browser.opened(chromium, validated) as shown:
        made = shown.locator("#made").text_content()
        assert "pylite validate" in made and "--reference" in made and "ISA level" in made
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", made)


def test_the_overlay_has_the_excess_of_every_node(validated):
    graph = json.loads(validated.with_suffix(".json").read_text())["main"]
    assert sorted(map(int, graph["results"])) == list(range(10))
    worst = max(graph["results"], key=lambda node: graph["results"][node]["value"])
    assert int(worst) == SPOILED
    limits = [t["value"] for t in graph["thresholds"]]
    assert limits == sorted(limits) and graph["results"][worst]["value"] < limits[-1]
    assert all(re.fullmatch("#[0-9a-f]{6}", t["bgColor"]) for t in graph["thresholds"])


def test_the_page_of_a_real_model_is_small_enough(chromium, tmp_path):
    path = resources.models() / "test_data" / "mobilenet_v2_1.0_224_quant.tflite"
    np.savez(tmp_path / "d.npz", np.random.default_rng(1).uniform(-1, 1, (1, 224, 224, 3)).astype(np.float32))
    target = tmp_path / "m.html"
    assert cli.main(["validate", str(path), "--reference", str(path), "--data", str(tmp_path / "d.npz"), "--html",
                     str(target)]) == 0
    assert target.stat().st_size < 8e6
    with browser.opened(chromium, target, browser.PHONE) as shown:
        assert browser.overhang(shown) <= 0 and browser.blank_charts(shown) == []
        assert browser.violations(shown) == []


def test_without_the_library_the_extra_is_named(folder, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(page, "find_spec", lambda name: None if name == "uplot" else found(name))
    with pytest.raises(FileFormatError, match=r"pylite-runtime\[validate\]"):
        page.page({})
    assert cli.main(["validate", "digits", "--reference", "digits", "--data", "gone.npz", "--html",
                     str(folder / "no.html")]) == 2
    assert "pylite-runtime[validate]" in capsys.readouterr().err    # before the data are looked for
    assert not (folder / "no.html").exists()


def test_the_picture_of_the_docs_is_drawn_by_its_script(chromium):
    resources.tool("uplot")
    resources.tool("PIL")
    from PIL import Image
    spec = importlib.util.spec_from_file_location("draw_report", ROOT / "docs" / "draw_report.py")
    draw_report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_report)
    for data in (draw_report.draw(chromium), draw_report.PICTURE.read_bytes()):
        assert len(data) <= 150_000
        assert Image.open(io.BytesIO(data)).size == draw_report.SIZE
