/** Figures from the text of /metrics. Nothing here touches the page. */

export const PATHS = ["clean", "recovered", "refused", "failed", "abandoned"];

/** The samples of a text: `{name, labels, value}`. */
export function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const [, name, inside, value] = /^([\w:]+)(?:\{(.*?)\})? ([^ ]+)/.exec(line) ?? [];
    if (!name) continue;
    const labels = Object.fromEntries([...(inside ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, k, v]) => [k, v]));
    found.push({ name, labels, value: Number(value) });
  }
  return found;
}

/** The buckets of a histogram by path: `{bounds, counts}`, counts for themselves, not cumulated; only paths that happened. */
export function byPath(found, name) {
  const paths = new Map();
  for (const { name: each, labels, value } of found) {
    if (each !== `${name}_bucket`) continue;
    const buckets = paths.get(labels.path) ?? [];
    buckets.push([labels.le === "+Inf" ? Infinity : Number(labels.le), value]);
    paths.set(labels.path, buckets);
  }
  const histograms = new Map();
  for (const path of PATHS) {
    const buckets = (paths.get(path) ?? []).sort(([a], [b]) => a - b);
    if (buckets.length && buckets.at(-1)[1] > 0) {
      histograms.set(path, {
        bounds: buckets.map(([bound]) => bound),
        counts: buckets.map(([, count], at) => count - (at ? buckets[at - 1][1] : 0)),
      });
    }
  }
  return histograms;
}

/** Several histograms as one; null for none. */
export function together(histograms) {
  const all = histograms.filter((each) => each);
  if (!all.length) return null;
  return { bounds: all[0].bounds, counts: all[0].counts.map((_, at) => all.reduce((sum, each) => sum + each.counts[at], 0)) };
}

export function total(histogram) {
  return histogram ? histogram.counts.reduce((sum, count) => sum + count, 0) : 0;
}

/** A quantile as Prometheus estimates it: linear inside its bucket, the last finite bound beyond it; NaN of nothing. */
export function quantile(q, histogram) {
  if (!total(histogram)) return NaN;
  const rank = q * total(histogram);
  let before = 0;
  for (const [at, count] of histogram.counts.entries()) {
    if (before + count >= rank && count) {
      const low = at ? histogram.bounds[at - 1] : 0;
      if (histogram.bounds[at] === Infinity) return low;
      return low + (histogram.bounds[at] - low) * ((rank - before) / count);
    }
    before += count;
  }
  return NaN;
}

/** The sum of the samples of a counter or gauge whose labels are like `labels`. */
export function sum(found, name, labels = {}) {
  return found
    .filter((each) => each.name === name && Object.entries(labels).every(([label, value]) => each.labels[label] === value))
    .reduce((all, each) => all + each.value, 0);
}

export const seconds = (value) => (Number.isFinite(value) ? (value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(2)} s`) : "–");
export const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");
