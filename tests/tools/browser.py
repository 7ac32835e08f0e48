"""A headless Chromium that opens the pages of reports, and what every page must hold."""
import contextlib
import shutil

from tests.tools import resources

DESKTOP, PHONE = (1200, 900), (360, 740)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")


@contextlib.contextmanager
def browser():
    """A browser of Playwright's, in a fresh profile."""
    resources.tool("playwright")
    resources.tool("axe_playwright_python")
    path = shutil.which("chromium") or resources.lack("chromium is not installed")
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


@contextlib.contextmanager
def opened(browser, file, size=DESKTOP, scheme="light"):
    """A page with this file, drawn; at the end, it must have had no error and asked for nothing but the file."""
    context = browser.new_context(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme)
    page = context.new_page()
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    wait_for_charts(page)
    try:
        yield page
        assert messages == []
        assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    finally:
        context.close()


def violations(page):
    """The accessibility rules of axe-core that the page breaks, and where."""
    from axe_playwright_python.sync_playwright import Axe
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in
            Axe().run(page).response["violations"]]


def wait_for_charts(page):
    """Charts are drawn at the next layout of the page.  Playwright's own waiting needs eval, which the page forbids."""
    page.evaluate("""new Promise((done, fail) => {
        setTimeout(() => fail('a chart is not drawn after 30 s'), 30000);
        const look = () => requestAnimationFrame(
            document.querySelectorAll('.chart').length == document.querySelectorAll('.chart canvas').length
            ? () => requestAnimationFrame(done) : look);
        look();
    })""")


def blank_charts(page):
    """The labels of charts on which nothing is drawn."""
    wait_for_charts(page)
    return page.evaluate("""[...document.querySelectorAll('.chart')].filter(chart => {
        const canvas = chart.querySelector('canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size < 10;
    }).map(chart => chart.getAttribute('aria-label'))""")


def overhang(page):
    """By how many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def column(page, table, number):
    """The texts of a column of a table, in the order that is shown, without rows that are filtered out."""
    return page.locator(f"table[aria-label='{table}'] tbody tr:visible td:nth-child({number})").all_text_contents()
