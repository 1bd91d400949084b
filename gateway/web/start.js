// Written into the page itself. The page is painted from its own bytes; what makes it move is asked for once it is, so that nothing
// takes the processor or the wire from the paint. Inside a conversation there is no welcome to paint first.
{
  const modules = [
    "answer", "answer_view", "composer", "documents", "dom", "events", "history", "http", "key", "markdown", "marks",
    "outcome_cards", "page", "say", "sheet", "sure", "turn", "turn_view", "vendor/marked.esm", "vendor/purify.min",
  ];
  const PAINT_WAIT_MS = 500; // where a paint is not told, or does not come
  let isStarted = false;
  const linked = (properties) => {
    const link = Object.assign(document.createElement("link"), properties);
    document.head.append(link);
    return link;
  };
  const start = () => {
    if (isStarted) return;
    isStarted = true;
    const sheet = linked({ rel: "stylesheet", href: "web/page.css" });
    for (const name of modules) linked({ rel: "modulepreload", href: `web/${name}.js` });
    sheet.onload = sheet.onerror = () => import("./web/page.js"); // what it draws is never seen without its style
  };
  if (location.hash) document.documentElement.classList.remove("welcomes");
  if (document.hidden) start(); // nothing is painted until somebody looks
  else {
    new PerformanceObserver((seen) => seen.getEntriesByName("first-contentful-paint").length && start()).observe({ type: "paint", buffered: true });
    setTimeout(start, PAINT_WAIT_MS);
  }
}
