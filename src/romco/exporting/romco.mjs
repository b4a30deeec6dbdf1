// Predictions of a romco model from its data file. No dependencies; browsers, node, Deno, workers.
//
//   import { Model } from "./romco.mjs";
//   const model = await Model.fetch("model.romcoexp");            // in a browser
//   const model = new Model((await readFile("model.romcoexp")));  // in node
//   model.predict({ age: 41, town: "Rome" }, "ann");              // the more probable class, or a number
//   model.probability({ age: 41, town: "Rome" }, "ann");          // of the positive class of two
//   model.probabilities({ age: 41, town: "Rome" }, "ann");        // of model.classes, two or more
//
// A task that is not known is a new one. null, undefined, NaN, "" and "NA" are missing; columns and
// categories that are not known are skipped. docs/export-format.md describes the file.

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MISSING = new Set(["", "na", "n/a", "nan", "null"]);
const SPACE = /[^\S\ufeff]|[\x1c-\x1f\x85]/; // of Python: trim() has others
const TRUTH = new Map([["true", 1], ["false", 0]]);
const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;
const WHOLE = /^[+-]?(?:0|[1-9]\d*)(?:\.0*)?$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

export class Model {
  /** Read the bytes of a data file: an ArrayBuffer or a view of one. */
  constructor(bytes) {
    const whole = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    const copy = whole.byteOffset % 8 ? whole.slice() : whole;
    const view = new DataView(copy.buffer, copy.byteOffset, copy.byteLength);
    const text = (from, to) => new TextDecoder().decode(copy.subarray(from, to));
    if (view.byteLength < 20 || text(0, 8) !== "romcoexp" || view.getUint32(8, true) !== 5)
      throw new Error("no data file of a romco model, or of another version");
    if (view.getUint32(view.byteLength - 4, true) !== checksum(copy.subarray(0, -4)))
      throw new Error("the data file of the model is damaged: load it again");
    let at = 16;
    const next = () => { // the next table
      const [rows, columns] = [at, at + 8].map((place) => Number(view.getBigUint64(place, true)));
      const values = new Float64Array(view.buffer, view.byteOffset + at + 16, rows * columns);
      at += 16 + 8 * rows * columns;
      return { rows, columns, values, row: (k) => values.subarray(k * columns, (k + 1) * columns) };
    };
    const tables = (...names) => Object.fromEntries(names.map((name) => [name, next()]));
    const { start, quantile, calibration } = tables("text", "start", "quantile", "calibration");
    const ofPart = ["stack", "wave", "function", "rotation", "unit", "feature", "task", "pair", "covariance"];
    this.parts = Array.from(calibration.values, (factor) =>
      ({ calibration: factor, quantile: quantile.values, ...tables(...ofPart) }));
    const names = Array.from({ length: start.rows - 1 }, (_, k) =>
      text(32 + start.values[k], 32 + start.values[k + 1] - 1)); // after the header and a shape
    const index = (some) => new Map(some.map((name, k) => [name, k]));
    const { unit, task } = this.parts[0];
    this.columns = new Map(Object.entries(JSON.parse(names.pop()).columns));
    this.features = index(names.splice(0, unit.rows));
    this.tasks = index(names.splice(0, task.rows - 2));
    this.classes = names;
    if (names.length < 3) return;
    this.softmax = this.parts.pop(); // the others are of pairs of classes
    Object.assign(this, tables("weight", "line", "matrix", "density", "group"));
    this.weights = this.weight.values;
  }

  /** Read the data file at an address. */
  static async fetch(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
    return new Model(await response.arrayBuffer());
  }

  /** Return the most probable class of a row, an object or an array; of a model of numbers, the number. */
  predict(row, task) {
    if (this.classes.length < 3) {
      const margin = this.margin(row, task);
      return this.classes.length ? this.classes[margin >= 0 ? 1 : 0] : margin;
    }
    const chances = this.probabilities(row, task);
    return this.classes[chances.lastIndexOf(Math.max(...chances))];
  }

  /** Return the probability of the positive class of two, classes[1]. */
  probability(row, task) {
    if (!this.classes.length) throw new Error("a number has no probability");
    return 1 / (1 + Math.exp(-this.parts[0].calibration * this.margin(row, task)));
  }

  /** Return the margin: above 0 for the positive class of two; of a model of numbers, the number. */
  margin(row, task) {
    if (this.classes.length > 2) throw new Error("more than two classes have no margin: use probabilities");
    return margin(this.parts[0], this.#inputs(this.parts[0], this.encode(row), this.#task(task)));
  }

  /** Return the probabilities of all classes, in the order of model.classes. */
  probabilities(row, task) {
    if (this.classes.length < 3) {
      const chance = this.probability(row, task);
      return [1 - chance, chance];
    }
    const values = this.encode(row), at = this.#task(task), total = this.classes.map(() => 0);
    if (this.parts.length) {
      const odds = this.parts.map((part) =>
        clip(part.calibration * margin(part, this.#inputs(part, values, at)), 500));
      this.#couple(odds).forEach((score, k) => (total[k] += this.weights[0] * score));
    }
    const inputs = this.#inputs(this.softmax, values, at);
    this.#softmax(inputs, at).forEach((score, k) => (total[k] += this.weights[1] * score));
    return normalised(total).map(Math.exp);
  }

  #task(task) {
    return this.tasks.get(canonical(task)) ?? this.tasks.size;
  }

  /** Return the inputs z of a part, and the functions before they are rotated. */
  #inputs(part, values, at) {
    const K = part.stack.rows, d = this.features.size, x = new Map(), u = new Map([[d, 1]]); // the constant
    for (const [name, value] of values) {
      const j = this.features.get(name);
      if (j === undefined) continue;
      x.set(j, value);
      u.set(j, scaled(part.unit.row(j), value));
    }
    const functions = Array.from({ length: part.function.rows }, (_, f) => {
      const [first, order, second, secondOrder, scale] = part.function.row(f);
      return scale * wave(part, x, u, first, order) * wave(part, x, u, second, secondOrder);
    });
    rotated(part, functions).forEach((value, f) => u.set(d + 1 + f, value));
    const z = new Float64Array(3 * K).fill(1, 2 * K); // sums, variances, factors
    add(z, part.task.row(0), part.task.row(1 + at), 1);
    for (const [j, value] of u) {
      add(z, part.feature.row(0), part.feature.row(1 + j), value);
      const own = find(part.pair, at * (part.feature.rows - 1) + j);
      if (own) add(z, part.pair.row(0).subarray(1), own, value);
    }
    for (let e = 0; e < part.covariance.rows; e++) {
      const [input, one, other, value] = part.covariance.row(e), first = u.get(one), second = u.get(other);
      if (first && second) z[K + input] += value * first * second;
    }
    return { z: z.subarray(0, K).map((sum, k) => z[2 * K + k] * moderate(sum, z[K + k])), functions };
  }

  /** Return scores from the log-odds of pairs. */
  #couple(odds) {
    const K = this.classes.length;
    const z = (k, j) => (k > j ? odds[(k * (k - 1)) / 2 + j] : -odds[(j * (j - 1)) / 2 + k]);
    let best = 0;
    for (let k = 1; k < K; k++) if (z(k, best) > 0) best = k;
    const close = (k) => z(best, k) < 4;
    return this.classes.map((_, k) => {
      let sum = 1;
      for (let j = 0; j < K; j++)
        if (j !== k && (j === best || k === best || (close(k) && close(j)))) sum += Math.exp(-z(k, j));
      return -Math.log(sum);
    });
  }

  /** Return scores from the inputs of the softmax. */
  #softmax({ z, functions }, at) {
    const K = this.classes.length, lines = Array.from(this.line.values, (f) => functions[f]), n = lines.length;
    const group = this.classes.map((_, k) =>
      find(this.group, at * K + k) ?? find(this.group, this.tasks.size * K + k));
    const scores = group.map(([level], k) => {
      let sum = level;
      for (let e = k; e < z.length; e += K) sum += this.softmax.stack.row(e)[0] * clip(z[e], 50);
      return sum;
    });
    for (const kind of [0, 1]) {
      const logs = group.map(([, spread, ...mean], k) => {
        const m = kind ? 1 + k : 0, [events, constant] = this.density.row(m);
        const turned = multiplied((i) => this.matrix.row(m * n + i), lines.map((f, j) => f - mean[j]));
        const far = turned.reduce((sum, value) => sum + value * value, 0) / spread;
        return -0.5 * (events + n) * Math.log1p(far / events) - 0.5 * n * Math.log(spread) - constant;
      });
      const best = Math.max(...logs);
      logs.forEach((log, k) => (scores[k] += this.weights[2 + kind] * Math.max(log - best, -30)));
    }
    return scores;
  }

  /** Return the features of a row by name, as the columns were learned. */
  encode(row) {
    const found = new Map();
    for (const [name, value] of Array.isArray(row) ? row.map((x, k) => [String(k), x]) : Object.entries(row)) {
      const kind = this.columns.get(name);
      if (kind !== undefined) ENCODERS[kind](name, value, found);
    }
    return found;
  }
}

/** Return the Adler-32 checksum of bytes. */
function checksum(bytes) {
  let a = 1, b = 0;
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b * 65536 + a;
}

/** Return the numbers after a key, or undefined; keys rise. */
function find(table, key) {
  let low = 0, high = table.rows;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (table.values[middle * table.columns] < key) low = middle + 1;
    else high = middle;
  }
  const row = table.row(low);
  return low < table.rows && row[0] === key ? row.subarray(1) : undefined;
}

const clip = (x, limit) => Math.max(-limit, Math.min(limit, x));
const moderate = (mean, variance) => mean / Math.sqrt(1 + (Math.PI * Math.max(0, variance)) / 8);

const multiplied = (row, values) => // by a lower triangle
  values.map((_, i) => {
    const factors = row(i);
    let sum = 0;
    for (let j = 0; j <= i; j++) sum += factors[j] * values[j];
    return sum;
  });
const rotated = ({ rotation }, values) =>
  rotation.rows ? multiplied((i) => rotation.row(i).subarray(1), values.map((f, k) => f - rotation.row(k)[0])) : values;

function normalised(scores) {
  const best = Math.max(...scores);
  const total = best + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - best), 0));
  return scores.map((score) => score - total);
}

function margin(part, { z }) {
  let mean = 0, variance = 0;
  for (let k = 0; k < z.length; k++) {
    const [weight, ...covariances] = part.stack.row(k);
    mean += weight * z[k];
    covariances.forEach((value, l) => (variance += value * z[k] * z[l]));
  }
  return moderate(mean, variance);
}

function scaled([centre, reach, factor, zero], x) {
  return Math.abs(x) < 1e-150 ? zero : factor * clip(x - centre, reach);
}

function wave(part, values, units, place, order) {
  if (place < 0) return 1; // there is no second factor
  const [feature, kind, ...knots] = part.wave.row(place);
  if (order < 0) return clip(units.get(feature) ?? 0, 8);
  const x = values.get(feature) ?? (kind === 1 ? 0 : undefined);
  if (x === undefined || (x === 0 && kind === 2)) return 0;
  const below = knots.filter((knot) => knot < x).length;
  const upto = knots.filter((knot) => knot <= x).length;
  const within = upto === below && below > 0 && below < knots.length;
  const way = (x - knots[below - 1]) / (knots[below] - knots[below - 1]);
  const rank = (within ? below - 0.5 + way : (below + upto) / 2) / knots.length;
  if (order > 0) return Math.SQRT2 * Math.cos(Math.PI * order * rank);
  const low = Math.min(Math.floor(64 * rank), 63), [first, next] = part.quantile.subarray(low, low + 2);
  return first + (64 * rank - low) * (next - first);
}

function add(z, places, values, u) {
  const K = z.length / 3;
  places.forEach((at, k) => {
    if (at < 2 * K) z[at] += values[k] * (at < K ? u : u * u);
    else z[at] = values[k];
  });
}

// Cells of a row by the kind of their column

const isMissing = (value) =>
  value === null || value === undefined || Number.isNaN(value) ||
  (typeof value === "string" && MISSING.has(strip(value).toLowerCase()));
const put = (found, name, value) => found.set(name, (found.get(name) ?? 0) + value);

/** Return text without spaces around it. */
function strip(text) {
  let from = 0, to = text.length;
  while (from < to && SPACE.test(text[from])) from++;
  while (from < to && SPACE.test(text[to - 1])) to--;
  return text.slice(from, to);
}

/** Return a name as text, numbers as Python writes them: 1, 1e-07, 10000000000000000000000. */
function textOf(name) {
  if (typeof name !== "number") return String(name);
  if (Number.isInteger(name)) return String(BigInt(name));
  return Math.abs(name) < 1e-4 ? name.toExponential().replace(/-(\d)$/, "-0$1") : String(name);
}

/** Return the one name of a task that is a whole number or a truth value: 7 is 7.0, "7" and "+7". */
function canonical(task) {
  const text = textOf(task);
  if (WHOLE.test(text)) return String(BigInt(text.replace(/^\+|\..*$/g, "")));
  return String(TRUTH.get(text.toLowerCase()) ?? text);
}

function numberOf(value) {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  const text = strip(String(value));
  if (NUMBER.test(text)) return Number(text);
  return TRUTH.get(text.toLowerCase());
}

function number(name, value, found) {
  if (isMissing(value)) return;
  const x = numberOf(value);
  if (x === undefined || !(Math.abs(x) <= 1e60)) throw new Error(`column ${name}: ${value} is no number up to 1e60`);
  put(found, name, x);
}

function category(name, value, found) {
  if (isMissing(value)) return;
  if (typeof value === "object") throw new Error(`column ${name}: ${value} is neither text nor a number`);
  put(found, `${name}=${strip(textOf(value))}`, 1);
}

function date(name, value, found, hours = true) {
  if (isMissing(value)) return;
  const iso = value instanceof Date ? value.toISOString() : strip(String(value));
  const [whole, year, month, day, hour, minute, second] = DATE.exec(iso) ?? [];
  const at = new Date(Date.UTC(year, month - 1, day));
  at.setUTCFullYear(year);
  if (!whole || year < 1 || at.getUTCMonth() !== month - 1 || hour > 23 || minute > 59 || second > 60)
    return category(name, value, found);
  put(found, `${name}.month=${month}`, 1);
  put(found, `${name}.weekday=${WEEKDAYS[at.getUTCDay()]}`, 1);
  if (hours && hour !== undefined) put(found, `${name}.hour=${hour}`, 1);
}

function text(name, value, found) {
  if (isMissing(value)) return;
  const words = new Map();
  for (const word of String(value).toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [])
    put(words, `${name}:${word}`, 1);
  let squares = 0;
  for (const count of words.values()) squares += Math.log1p(count) ** 2;
  for (const [word, count] of words) put(found, word, Math.log1p(count) / Math.sqrt(squares));
}

function free(name, value, found) {
  if (isMissing(value)) return;
  if (Array.isArray(value))
    value.forEach((inner, k) => free(typeof inner === "string" ? name : `${name}.${k}`, inner, found));
  else if (typeof value === "object" && !(value instanceof Date))
    for (const [key, inner] of Object.entries(value)) free(`${name}.${key}`, inner, found);
  else if (typeof value === "string" && !NUMBER.test(strip(value))) category(name, value, found);
  else number(name, value, found);
}

const ENCODERS = { number, category, text, date, free, day: (n, v, f) => date(n, v, f, false) };
