// Predictions of a romco model from its data file. No dependencies; browsers, node, Deno, workers.
//
//   import { Model } from "./romco.mjs";
//   const model = await Model.fetch("model.romcoexp");            // in a browser
//   const model = new Model((await readFile("model.romcoexp")));  // in node
//   model.predict({ age: 41, town: "Rome" }, "ann");              // the more probable class, or a number
//   model.probability({ age: 41, town: "Rome" }, "ann");          // of the positive class
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
    if (view.byteLength < 16 || text(0, 8) !== "romcoexp" || view.getUint32(8, true) !== 1)
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
    const table = (what) => ({ lane: block(`${what}.lane`, Int32Array), value: block(`${what}.value`) });
    [this.row, this.common, this.empty, this.calibration] = block("number");
    this.weight = block("stack.weight");
    this.covariance = block("stack.covariance");
    this.intercept = block("intercept");
    this.unit = block("unit");
    this.features = indexed(names("feature"));
    this.tasks = indexed(names("task"));
    this.classes = names("class");
    [this.ofFeature, this.ofTask, this.ofPair] = ["feature", "task", "pair"].map(table);
    this.pairStart = Float64Array.from(block("pair.start", BigInt64Array), Number);
    this.pairFeature = block("pair.feature", Int32Array);
    this.entryAt = block("covariance.at", Int32Array);
    this.entry = block("covariance.value");
    this.waveFeature = block("wave.feature", Int32Array);
    this.knot = block("wave.knot");
    this.factor = block("function.factor", Int32Array);
    this.scale = block("function.scale");
    const schema = JSON.parse(text(...places.get("schema")));
    this.columns = new Map(Object.entries(schema.columns));
  }

  /** Read the data file at an address. */
  static async fetch(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`${address}: ${response.status} ${response.statusText}`);
    return new Model(await response.arrayBuffer());
  }

  /** Return the more probable class of a row, an object or an array; of a model of numbers, the number. */
  predict(row, task) {
    const margin = this.margin(row, task);
    return this.classes.length ? this.classes[margin >= 0 ? 1 : 0] : margin;
  }

  /** Return the probability of the positive class, classes[1]. */
  probability(row, task) {
    if (!this.classes.length) throw new Error("a number has no probability");
    return 1 / (1 + Math.exp(-this.calibration * this.margin(row, task)));
  }

  /** Return the margin: above 0 for the positive class; of a model of numbers, the number. */
  margin(row, task) {
    const at = this.tasks.get(String(task)) ?? this.tasks.size;
    const K = this.weight.length, d = this.features.size, x = new Map(), u = new Map();
    let squares = 0;
    for (const [name, value] of this.encode(row)) {
      const j = this.features.get(name);
      if (j === undefined) continue;
      x.set(j, value);
      u.set(j, scaled(this, j, value));
      squares += u.get(j) ** 2;
    }
    if (squares < this.empty) u.clear();
    const parts = [Float64Array.from(this.intercept), new Float64Array(K), new Float64Array(K).fill(1)];
    add(parts, this.ofTask, at, 1);
    for (const [j, value] of u) {
      add(parts, this.ofFeature, j, value);
      const place = this.#pair(at, j);
      if (place >= 0) add(parts, this.ofPair, place, value);
    }
    u.set(d, 1); // the constant
    this.scale.forEach((scale, f) => {
      const [first, order, second, secondOrder] = this.factor.subarray(4 * f, 4 * f + 4);
      const value = scale * wave(this, x, first, order) * wave(this, x, second, secondOrder);
      add(parts, this.ofFeature, d + 1 + f, value);
      u.set(d + 1 + f, value);
    });
    for (let e = 0; e < this.entry.length; e++) {
      const first = u.get(this.entryAt[3 * e + 1]), second = u.get(this.entryAt[3 * e + 2]);
      if (first && second) parts[VARIANCE][this.entryAt[3 * e]] += this.entry[e] * first * second;
    }
    const z = parts[WEIGHT].map((sum, k) => parts[FACTOR][k] * moderate(sum, parts[VARIANCE][k]));
    let mean = 0, variance = 0;
    for (let k = 0; k < K; k++) {
      mean += this.weight[k] * z[k];
      for (let l = 0; l < K; l++) variance += this.covariance[k * K + l] * z[k] * z[l];
    }
    return moderate(mean, variance);
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

  #pair(task, feature) {
    let low = this.pairStart[task], high = this.pairStart[task + 1];
    const end = high;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.pairFeature[middle] < feature) low = middle + 1;
      else high = middle;
    }
    return low < end && this.pairFeature[low] === feature ? low : -1;
  }
}

const clip = (x, limit) => Math.max(-limit, Math.min(limit, x));
const moderate = (mean, variance) => mean / Math.sqrt(1 + (Math.PI * Math.max(0, variance)) / 8);

function scaled(model, j, x) {
  const [count, total, squares, bound, share, ...kept] = model.unit.subarray(9 * j, 9 * j + 9);
  let [centre, reach, factor, zero] = kept;
  if (Math.abs(x) < 1e-150) return model.row * zero;
  if (count > 0) { // the feature is measured anew
    const v = clip(x, bound), mean = (total + v) / count, square = (squares + v * v) / count;
    const spread = square - mean * mean, sure = (count - 1) * mean * mean;
    centre = mean * share * (spread > 1e-9 * square ? sure / (sure + spread) : 1);
    const variance = square - 2 * centre * mean + centre * centre;
    const size = Math.sqrt(variance > 1e-9 * square ? variance : square);
    const r = Math.log(size) - model.common, r4 = r * r * r * r;
    factor = Math.exp(-model.common - (r * r4) / (r4 + 1.4 * 1.4 * 1.4 * 1.4));
    reach = 10 * size;
  }
  return model.row * factor * clip(x - centre, reach);
}

function wave(model, values, place, order) {
  if (place < 0) return 1; // there is no second factor
  const [hasKnots, ...knots] = model.knot.subarray(65 * place, 65 * place + 65);
  const x = values.get(model.waveFeature[place]);
  if (x === undefined || (x === 0 && !hasKnots)) return 0;
  if (!hasKnots) return order === 1 ? 1 : 0;
  const below = knots.filter((knot) => knot < x).length;
  const upto = knots.filter((knot) => knot <= x).length;
  const within = upto === below && below > 0 && below < knots.length;
  const part = (x - knots[below - 1]) / (knots[below] - knots[below - 1]);
  const rank = (within ? below - 0.5 + part : (below + upto) / 2) / knots.length;
  return Math.SQRT2 * Math.cos(Math.PI * order * rank);
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
