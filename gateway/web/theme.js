// Runs before the first paint, so that a chosen theme never flashes; without a choice the system's holds.
try {
  const chosen = localStorage.getItem("gateway.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // storage is switched off: the system's theme it is
}
