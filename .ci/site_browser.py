"""What a browser finds in the built site: the answers of its search, and the rules of axe that its pages break."""
import contextlib
import shutil

SIZES, SCHEMES = ((1280, 900), (390, 844)), ("light", "dark")


@contextlib.contextmanager
def browser():
    """A headless Chromium of Playwright's; None where one of them, or axe, is not installed."""
    path = shutil.which("chromium")
    try:
        import axe_playwright_python  # noqa: F401
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


def searched(running, words, page):
    """The titles that the search of a page, opened as a file, finds."""
    opened = running.new_page()
    opened.goto(page.as_uri())
    opened.locator("input.md-search__input").press_sequentially(words)
    results = opened.locator(".md-search-result__item h1")
    results.first.wait_for(state="visible", timeout=60000)
    found = results.all_inner_texts()
    opened.close()
    return found


def faults(running, page):
    """What is wrong with a page at each of SIZES, light and dark, as lines."""
    from axe_playwright_python.sync_playwright import Axe
    for width, height in SIZES:
        for scheme in SCHEMES:
            context = running.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            opened = context.new_page()
            opened.goto(page.as_uri())
            where = f"{page.name}, {width} pixels, {scheme}"
            for rule in Axe().run(opened).response["violations"]:
                yield from (f"{where}: {rule['id']}: {node['html'][:150]}" for node in rule["nodes"])
            beyond = opened.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if beyond > 0:
                yield f"{where}: {beyond} pixels wider than the window"
            context.close()
