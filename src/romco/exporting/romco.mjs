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
const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const [WEIGHT, VARIANCE, FACTOR] = [0, 1, 2];

export class Model {
  /** Read the bytes of a data file: an ArrayBuffer or a view of one. */
  constructor(bytes) {
    const whole = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    const copy = whole.byteOffset % 8 ? whole.slice() : whole;
    const view = new DataView(copy.buffer, copy.byteOffset, copy.byteLength);
    const text = (offset, length) =>
      new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + offset, length));
    if (view.byteLength < 16 || text(0, 8) !== "romcoexp" || view.getUint32(8, true) !== 2)
      throw new Error("no data file of a romco model, or of another version");
    const places = new Map();
    for (let k = 0, at = 16; k < view.getUint32(12, true); k++, at += 40)
      places.set(text(at, 24).replace(/\0+$/, ""), [24, 32].map((o) => Number(view.getBigUint64(at + o, true))));
    const block = (name, type = Float64Array) => {
      if (!places.has(name)) throw new Error(`the data file has no block ${name}`);
      const [offset, length] = places.get(name);
      return new type(view.buffer, view.byteOffset + offset, length / type.BYTES_PER_ELEMENT);
    };
    const names = (what) => {
      const start = block(`${what}.start`, BigInt64Array);
      const first = places.get(`${what}.name`)[0];
      return Array.from({ length: start.length - 1 }, (_, k) =>
        text(first + Number(start[k]), Number(start[k + 1] - start[k])));
    };
    const indexed = (list) => new Map(list.map((name, k) => [name, k]));
    const rows = (what, key) => ({
      start: Float64Array.from(block(`${what}.start`, BigInt64Array), Number),
      key: block(`${what}.${key}`, Int32Array),
    });
    [this.power, this.share, ...this.weights] = block("number");
    this.features = indexed(names("feature"));
    this.tasks = indexed(names("task"));
    this.classes = names("class");
    this.line = block("line", Int32Array);
    this.matrix = block("line.matrix");
    this.density = block("line.density");
    this.groups = rows("group", "class");
    this.group = block("group.value");
    const [, , , parts, pairs] = Array.from(block("size", BigInt64Array), Number);
    this.parts = Array.from({ length: parts }, (_, k) => {
      const of = (name, type) => block(`${k}.${name}`, type);
      const table = (what) => ({ lane: of(`${what}.lane`, Int32Array), value: of(`${what}.value`) });
      const [row, common, empty, calibration] = of("number");
      const [ofFeature, ofTask, ofPair] = ["feature", "task", "pair"].map(table);
      return {
        row, common, empty, calibration, ofFeature, ofTask, ofPair,
        width: Number(of("size", BigInt64Array)[8]), // of a unit
        weight: of("stack.weight"), covariance: of("stack.covariance"),
        intercept: of("intercept"), unit: of("unit"), pairs: rows(`${k}.pair`, "feature"),
        entryAt: of("covariance.at", Int32Array), entry: of("covariance.value"),
        waveFeature: of("wave.feature", Int32Array), knot: of("wave.knot"), quantile: block("quantile"),
        factor: of("function.factor", Int32Array), scale: of("function.scale"),
        centre: of("function.centre"), rotation: of("function.rotation"),
      };
    });
    this.pairs = this.parts.slice(0, pairs);
    this.softmax = this.classes.length > 2 ? this.parts[pairs] : undefined;
    const schema = JSON.parse(text(...places.get("schema")));
    this.columns = new Map(Object.entries(schema.columns));
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
    if (this.pairs.length) {
      const odds = this.pairs.map((part) =>
        clip(part.calibration * margin(part, this.#inputs(part, values, at)), 500));
      this.#couple(odds).forEach((score, k) => (total[k] += this.weights[0] * score));
    }
    if (this.softmax) {
      const inputs = this.#inputs(this.softmax, values, at);
      this.#softmax(inputs, at).forEach((score, k) => (total[k] += this.weights[1] * score));
    }
    return normalised(total).map(Math.exp);
  }

  #task(task) {
    return this.tasks.get(String(task)) ?? this.tasks.size;
  }

  /** Return the inputs z of a part, and the functions before they are rotated. */
  #inputs(part, values, at) {
    const K = part.weight.length, d = this.features.size, x = new Map(), u = new Map();
    let squares = 0;
    for (const [name, value] of values) {
      const j = this.features.get(name);
      if (j === undefined) continue;
      x.set(j, value);
      u.set(j, scaled(part, j, value));
      squares += u.get(j) ** 2;
    }
    if (squares < part.empty) u.clear();
    const functions = Array.from(part.scale, (scale, f) => {
      const [first, order, second, secondOrder] = part.factor.subarray(4 * f, 4 * f + 4);
      return scale * wave(part, x, u, first, order) * wave(part, x, u, second, secondOrder);
    });
    rotated(part, functions).forEach((value, f) => u.set(d + 1 + f, value));
    const parts = [part.intercept.slice(0, K), part.intercept.slice(K), new Float64Array(K).fill(1)];
    add(parts, part.ofTask, at, 1);
    for (const [j, value] of u) {
      add(parts, part.ofFeature, j, value);
      const place = find(part.pairs, at, j);
      if (place >= 0) add(parts, part.ofPair, place, value);
    }
    u.set(d, 1); // the constant
    for (let e = 0; e < part.entry.length; e++) {
      const first = u.get(part.entryAt[3 * e + 1]), second = u.get(part.entryAt[3 * e + 2]);
      if (first && second) parts[VARIANCE][part.entryAt[3 * e]] += part.entry[e] * first * second;
    }
    const z = parts[WEIGHT].map((sum, k) => parts[FACTOR][k] * moderate(sum, parts[VARIANCE][k]));
    return { z, functions };
  }

  /** Return log-probabilities from the log-odds of pairs. */
  #couple(odds) {
    const K = this.classes.length;
    const z = (k, j) => (k > j ? odds[(k * (k - 1)) / 2 + j] : -odds[(j * (j - 1)) / 2 + k]);
    let best = 0;
    for (let k = 1; k < K; k++) if (z(k, best) > 0) best = k;
    const close = (k) => z(best, k) < 4;
    const scores = this.classes.map((_, k) => {
      let sum = 1;
      for (let j = 0; j < K; j++)
        if (j !== k && (j === best || k === best || (close(k) && close(j)))) sum += Math.exp(-z(k, j));
      return -this.power * Math.log(sum);
    });
    return normalised(scores).map((score) => Math.log((1 - this.share) * Math.exp(score) + this.share / K));
  }

  /** Return log-probabilities from the inputs of the softmax. */
  #softmax({ z, functions }, at) {
    const K = this.classes.length, lines = Array.from(this.line, (f) => functions[f]), n = lines.length;
    const group = this.classes.map((_, k) => {
      const found = find(this.groups, at, k), row = found < 0 ? this.groups.start[this.tasks.size] + k : found;
      return this.group.subarray((2 + n) * row, (2 + n) * (row + 1));
    });
    const scores = group.map(([level], k) => {
      let sum = level;
      for (let e = k; e < z.length; e += K) sum += this.softmax.weight[e] * clip(z[e], 50);
      return sum;
    });
    for (const kind of [0, 1]) {
      const logs = group.map(([, spread, ...mean], k) => {
        const m = kind ? 1 + k : 0, [events, constant] = this.density.subarray(2 * m, 2 * m + 2);
        const turned = multiplied(this.matrix.subarray(m * n * n, (m + 1) * n * n), lines.map((f, j) => f - mean[j]));
        const far = turned.reduce((sum, value) => sum + value * value, 0) / spread;
        return -0.5 * (events + n) * Math.log1p(far / events) - 0.5 * n * Math.log(spread) - constant;
      });
      const best = Math.max(...logs);
      logs.forEach((log, k) => (scores[k] += this.weights[2 + kind] * Math.max(log - best, -30)));
    }
    return normalised(scores);
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

/** Return the row of a task and a key, or -1; keys of a task rise. */
function find({ start, key }, task, k) {
  let low = start[task], high = start[task + 1];
  const end = high;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (key[middle] < k) low = middle + 1;
    else high = middle;
  }
  return low < end && key[low] === k ? low : -1;
}

const clip = (x, limit) => Math.max(-limit, Math.min(limit, x));
const moderate = (mean, variance) => mean / Math.sqrt(1 + (Math.PI * Math.max(0, variance)) / 8);

const multiplied = (matrix, values) => // by a lower triangle
  values.map((_, i) => {
    let sum = 0;
    for (let j = 0; j <= i; j++) sum += matrix[i * values.length + j] * values[j];
    return sum;
  });
const rotated = (part, values) =>
  part.centre.length ? multiplied(part.rotation, values.map((f, k) => f - part.centre[k])) : values;

function normalised(scores) {
  const best = Math.max(...scores);
  const total = best + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - best), 0));
  return scores.map((score) => score - total);
}

function margin(part, { z }) {
  let mean = 0, variance = 0;
  for (let k = 0; k < z.length; k++) {
    mean += part.weight[k] * z[k];
    for (let l = 0; l < z.length; l++) variance += part.covariance[k * z.length + l] * z[k] * z[l];
  }
  return moderate(mean, variance);
}

function scaled(part, j, x) {
  const [count, total, squares, bound, share, ...kept] = part.unit.subarray(part.width * j, part.width * (j + 1));
  let [centre, reach, factor, zero, ...ofPair] = kept;
  if (Math.abs(x) < 1e-150) return part.row * zero;
  const v = clip(x, bound);
  const measured = (n, sum, sumOfSquares, centred) => {
    const mean = (sum + v) / n, square = (sumOfSquares + v * v) / n;
    const spread = square - mean * mean, sure = (n - 1) * mean * mean, spreads = spread > 1e-9 * square;
    return { mean, square, spreads, middle: mean * centred * (spreads ? sure / (sure + spread) : 1) };
  };
  let ofBoth = ofPair[0] > 0; // it is centred by the two classes of a pair
  if (count > 0) { // the feature is measured anew
    const { mean, square, spreads, middle } = measured(count, total, squares, share);
    const variance = square - 2 * middle * mean + middle * middle;
    const size = Math.sqrt(variance > 1e-9 * square ? variance : square);
    const r = Math.log(size) - part.common, r4 = r * r * r * r;
    factor = Math.exp(-part.common - (r * r4) / (r4 + 1.4 * 1.4 * 1.4 * 1.4));
    reach = 10 * size;
    centre = ofPair.length && spreads ? 0 : middle;
    ofBoth &&= spreads;
  }
  if (ofBoth) {
    centre = measured(...ofPair).middle;
    if (ofPair[4] > 0) [reach, factor] = ofPair.slice(4);
  }
  return part.row * factor * clip(x - centre, reach);
}

function wave(part, values, units, place, order) {
  if (place < 0) return 1; // there is no second factor
  const [kind, ...knots] = part.knot.subarray(65 * place, 65 * place + 65);
  const x = values.get(part.waveFeature[place]) ?? (kind === 2 ? 0 : undefined);
  if (kind === 0 && order === 0) return clip(units.get(part.waveFeature[place]) ?? 0, 8);
  if (x === undefined || (x === 0 && (kind === 0 || kind === 3))) return 0;
  if (kind === 0) return order === 1 ? 1 : 0;
  const below = knots.filter((knot) => knot < x).length;
  const upto = knots.filter((knot) => knot <= x).length;
  const within = upto === below && below > 0 && below < knots.length;
  const way = (x - knots[below - 1]) / (knots[below] - knots[below - 1]);
  const rank = (within ? below - 0.5 + way : (below + upto) / 2) / knots.length;
  if (order > 0) return Math.SQRT2 * Math.cos(Math.PI * order * rank);
  const low = Math.min(Math.floor(64 * rank), 63), [first, next] = part.quantile.subarray(low, low + 2);
  return first + (64 * rank - low) * (next - first);
}

function add(parts, table, row, u) {
  const { lane, value } = table, lanes = lane.length / 2;
  for (let k = 0; k < lanes; k++) {
    const part = lane[2 * k], input = lane[2 * k + 1], number = value[row * lanes + k];
    if (part === FACTOR) parts[part][input] = number;
    else parts[part][input] += number * (part === WEIGHT ? u : u * u);
  }
}

// Cells of a row by the kind of their column

const isMissing = (value) =>
  value === null || value === undefined || Number.isNaN(value) ||
  (typeof value === "string" && MISSING.has(value.trim().toLowerCase()));
const put = (found, name, value) => found.set(name, (found.get(name) ?? 0) + value);

function numberOf(value) {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  const text = String(value).trim();
  if (NUMBER.test(text)) return Number(text);
  return { true: 1, false: 0 }[text.toLowerCase()];
}

function number(name, value, found) {
  if (isMissing(value)) return;
  const x = numberOf(value);
  if (x === undefined || !(Math.abs(x) <= 1e60)) throw new Error(`column ${name}: ${value} is no number up to 1e60`);
  put(found, name, x);
}

function category(name, value, found) {
  if (!isMissing(value)) put(found, `${name}=${String(value).trim()}`, 1);
}

function date(name, value, found, hours = true) {
  if (isMissing(value)) return;
  const iso = value instanceof Date ? value.toISOString() : String(value).trim();
  const [whole, year, month, day, hour, minute, second] = DATE.exec(iso) ?? [];
  const at = new Date(Date.UTC(year, month - 1, day));
  at.setUTCFullYear(year);
  if (!whole || at.getUTCMonth() !== month - 1 || hour > 23 || minute > 59 || second > 60)
    return category(name, value, found);
  put(found, `${name}.month=${month}`, 1);
  put(found, `${name}.weekday=${WEEKDAYS[at.getUTCDay()]}`, 1);
  if (hours && hour !== undefined) put(found, `${name}.hour=${hour}`, 1);
}

function counts(name, value, found) {
  if (isMissing(value)) return;
  for (const word of String(value).toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [])
    put(found, `${name}:${word}`, 1);
}

function text(name, value, found) {
  const words = new Map();
  counts(name, value, words);
  let squares = 0;
  for (const count of words.values()) squares += Math.log1p(count) ** 2;
  for (const [word, count] of words) put(found, word, Math.log1p(count) / Math.sqrt(squares));
}

function free(name, value, found) {
  if (isMissing(value)) return;
  if (Array.isArray(value))
    value.forEach((inner, k) => free(typeof inner === "string" ? name : `${name}.${k}`, inner, found));
  else if (typeof value === "object")
    for (const [key, inner] of Object.entries(value)) free(`${name}.${key}`, inner, found);
  else if (typeof value === "string" && !NUMBER.test(value.trim())) category(name, value, found);
  else number(name, value, found);
}

const ENCODERS = { number, category, text, counts, date, free, day: (n, v, f) => date(n, v, f, false) };
