// Runs before the first paint, so that a chosen theme does not flash. No choice: the system's.
try {
  const theme = localStorage.getItem('spate.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // storage may be forbidden: the system's theme
}
