/* What the theme adds to a page that has loaded: buttons beside code are no landmarks of their own, and the keyboard
   reaches a table that scrolls. */
new MutationObserver(() => {
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) buttons.setAttribute("role", "none")
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0
}).observe(document.body, { childList: true, subtree: true })
