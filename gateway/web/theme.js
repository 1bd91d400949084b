// Runs before the first paint, so that a chosen theme never flashes; without a choice the system's holds. It stands before the style
// sheet in the page, because a script behind one waits for it.
try {
  const chosen = localStorage.getItem("gateway.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is switched off: the system's theme it is
}
