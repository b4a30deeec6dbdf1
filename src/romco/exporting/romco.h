/* Predictions of a romco model from its data file. No dependencies, C99, little-endian machines.

     romco_model *m = romco_open("model.romcoexp");            NULL: no such file, damaged, or no memory
     int64_t task = romco_task(m, "ann");                      an unknown name is a new task
     int64_t feature[] = {romco_feature(m, "age"), romco_feature(m, "town=Rome")};
     double value[] = {41.0, 1.0};                             NaN: missing; unknown features: skipped
     double margin = romco_margin(m, task, feature, value, 2); log-odds, or the predicted number
     double p = romco_probability(m, margin);                  of the positive class of two
     double *all = (double *)malloc(romco_classes(m) * sizeof *all);
     romco_probabilities(m, task, feature, value, 2, all);     of each class, two or more

   Use one model per thread. docs/export-format.md describes the file. */
#ifndef ROMCO_H
#define ROMCO_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const double *at; int64_t rows, columns; } romco_table;

typedef struct {
  romco_table number, stack, covariance, wave, function, rotation, unit, feature, task, pair, entry;
  double *u, *f, *z;                       /* of one event: units; functions; weight, variance, factor */
} romco_part;

typedef struct {
  romco_table size, text, name, quantile, weight, line, matrix, density, group;
  int64_t features, tasks, classes, parts;
  char *data, *next;
  size_t left;                             /* bytes that are not read yet, from next on */
  romco_part *part;
  double *x, *odds, *score;                /* of one event: values; log-odds of pairs; scores of classes */
} romco_model;

/* Reading: whatever is used as a place or a size is checked here, so a crafted file is refused. */

static inline int romco_next(romco_model *m, romco_table *t, int64_t rows, int64_t columns) {  /* -1: any */
  uint64_t shape[2];
  if (m->left < sizeof shape) return 0;
  memcpy(shape, m->next, sizeof shape);
  m->left -= sizeof shape;
  if (shape[0] >> 31 || shape[1] >> 31 || shape[0] * shape[1] > m->left / 8) return 0;
  t->at = (const double *)(const void *)(m->next + sizeof shape);
  t->rows = (int64_t)shape[0];
  t->columns = (int64_t)shape[1];
  m->next += sizeof shape + 8 * shape[0] * shape[1];
  m->left -= 8 * shape[0] * shape[1];
  return (rows < 0 || t->rows == rows) && (columns < 0 || t->columns == columns);
}

static inline int romco_whole(const double *x, int64_t n, int64_t step, double low, double high) {
  for (; n > 0; n--, x += step)            /* whole numbers from low on, below high */
    if (!(*x >= low && *x < high && *x == floor(*x))) return 0;
  return 1;
}

static inline int romco_column(const romco_table *t, int64_t column, int64_t low, int64_t high) {
  return romco_whole(t->at + column, t->rows, t->columns, (double)low, (double)high);
}

static inline int romco_places(const romco_table *t, int64_t first, int64_t inputs) {  /* the first row */
  return t->rows > 0 && romco_whole(t->at + first, t->columns - first, 1, 0.0, 3.0 * (double)inputs);
}

static inline int romco_read_part(romco_model *m, romco_part *p) {
  int64_t d = m->features, inputs, g;
  if (!romco_next(m, &p->number, 1, 4) || !romco_next(m, &p->stack, -1, 3)) return 0;
  inputs = p->stack.rows;
  if (!romco_next(m, &p->covariance, -1, -1) || !romco_next(m, &p->wave, -1, 66) || !romco_next(m, &p->function, -1, 5)) return 0;
  g = p->function.rows;
  if (!((p->covariance.rows == 0 || (p->covariance.rows == inputs && p->covariance.columns == inputs)) && romco_column(&p->wave, 0, 0, d)
        && romco_column(&p->function, 0, -1, p->wave.rows) && romco_column(&p->function, 2, -1, p->wave.rows)
        && romco_next(m, &p->rotation, -1, 1 + g) && (p->rotation.rows == 0 || p->rotation.rows == g)
        && romco_next(m, &p->unit, d, 9)
        && romco_next(m, &p->feature, 2 + d + g, -1) && romco_places(&p->feature, 0, inputs)
        && romco_next(m, &p->task, 2 + m->tasks, -1) && romco_places(&p->task, 0, inputs)
        && romco_next(m, &p->pair, -1, -1) && p->pair.columns > 0 && romco_places(&p->pair, 1, inputs)
        && romco_next(m, &p->entry, -1, 4) && romco_column(&p->entry, 0, 0, inputs)
        && romco_column(&p->entry, 1, 0, d + 1 + g) && romco_column(&p->entry, 2, 0, d + 1 + g))) return 0;
  p->u = (double *)calloc((size_t)(d + 1 + 2 * g + 3 * inputs), sizeof(double));
  p->f = p->u + d + 1 + g;
  p->z = p->f + g;
  return p->u != NULL;
}

static inline int romco_read_classes(romco_model *m) {          /* of three or more: the softmax */
  int64_t n, K = m->classes, functions = m->part[m->parts - 1].function.rows;
  if (!romco_next(m, &m->weight, 1, 4) || !romco_next(m, &m->line, -1, 1)) return 0;
  n = m->line.rows;
  return m->part[m->parts - 1].stack.rows == 2 * K && romco_column(&m->line, 0, 0, functions)
         && romco_next(m, &m->matrix, (1 + K) * n, n) && romco_next(m, &m->density, 1 + K, 2)
         && romco_next(m, &m->group, -1, 3 + n) && m->group.rows >= K;
}

static inline int romco_read(romco_model *m) {                  /* 0: damaged, or no memory */
  uint32_t a = 1, b = 0, checksum;
  int64_t k, names, K, bytes = (int64_t)m->left;
  if (bytes < 20 || memcmp(m->data, "romcoexp\4\0\0\0\0\0\0", 16) != 0) return 0;
  memcpy(&checksum, m->data + bytes - 4, 4);
  for (k = 0; k < bytes - 4; k++) {        /* Adler-32 */
    a = (a + (unsigned char)m->data[k]) % 65521;
    b = (b + a) % 65521;
  }
  if (checksum != (b << 16 | a)) return 0;
  m->next = m->data + 16;
  m->left = (size_t)bytes - 20;
  if (!romco_next(m, &m->size, 1, 4) || !romco_whole(m->size.at, 4, 1, 0.0, 2147483648.0)) return 0;
  m->features = (int64_t)m->size.at[0]; m->tasks = (int64_t)m->size.at[1];
  m->classes = K = (int64_t)m->size.at[2]; m->parts = (int64_t)m->size.at[3];
  if (m->parts != 1 && (K < 3 || m->parts != 1 + K * (K - 1) / 2)) return 0;
  names = m->features + m->tasks + K;
  if (!(romco_next(m, &m->text, -1, 1) && romco_next(m, &m->name, names + 2, 1)
        && romco_column(&m->name, 0, 0, 8 * m->text.rows + 1) && romco_next(m, &m->quantile, 65, 1))) return 0;
  for (k = 1; k <= names; k++)             /* each name ends with a zero */
    if (m->name.at[k] <= m->name.at[k - 1] || ((const char *)m->text.at)[(int64_t)m->name.at[k] - 1]) return 0;
  if ((uint64_t)m->parts > m->left / 16) return 0;
  m->x = (double *)calloc((size_t)m->features + 1, sizeof(double));
  m->odds = (double *)calloc((size_t)m->parts, sizeof(double));
  m->score = (double *)calloc(3 * (size_t)K + 1, sizeof(double));
  m->part = (romco_part *)calloc((size_t)m->parts, sizeof(romco_part));
  if (!m->x || !m->odds || !m->score || !m->part) return 0;
  for (k = 0; k < m->parts; k++) if (!romco_read_part(m, m->part + k)) return 0;
  return K < 3 || romco_read_classes(m);
}

static inline void romco_close(romco_model *m) {
  int64_t k;
  if (!m) return;
  for (k = 0; m->part && k < m->parts; k++) free(m->part[k].u);
  free(m->data); free(m->x); free(m->odds); free(m->score); free(m->part); free(m);
}

static inline romco_model *romco_open(const char *path) {
  romco_model *m = (romco_model *)calloc(1, sizeof *m);
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (m && file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0) {
    rewind(file);
    m->data = (char *)malloc((size_t)size);
    if (m->data) m->left = fread(m->data, 1, (size_t)size, file);
  }
  if (file) fclose(file);
  if (m && m->left > 0 && romco_read(m)) return m;
  romco_close(m);
  return NULL;
}

/* Names and rows */

static inline const char *romco_name(const romco_model *m, int64_t k) {
  return (const char *)m->text.at + (int64_t)m->name.at[k];
}

static inline int64_t romco_find(const romco_model *m, int64_t first, int64_t n, const char *name) {
  int64_t low = first, high = first + n, size = (int64_t)strlen(name) + 1;
  while (low < high) {                     /* names are sorted by their bytes */
    int64_t k = (low + high) / 2, length = (int64_t)(m->name.at[k + 1] - m->name.at[k]);
    int order = memcmp(romco_name(m, k), name, (size_t)(length < size ? length : size));
    if (order == 0 && length == size) return k - first;
    if (order < 0 || (order == 0 && length < size)) low = k + 1; else high = k;
  }
  return -1;
}

static inline int64_t romco_feature(const romco_model *m, const char *name) {
  return romco_find(m, 0, m->features, name);
}

static inline int64_t romco_task(const romco_model *m, const char *name) {
  int64_t k = romco_find(m, m->features, m->tasks, name);
  return k < 0 ? m->tasks : k;
}

static inline int64_t romco_classes(const romco_model *m) { return m->classes; }

static inline const char *romco_class(const romco_model *m, int64_t k) {
  return romco_name(m, m->features + m->tasks + k);
}

static inline const double *romco_row(const romco_table *t, int64_t key) {  /* after its key; keys rise */
  int64_t low = 0, high = t->rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (t->at[middle * t->columns] < (double)key) low = middle + 1; else high = middle;
  }
  return low < t->rows && t->at[low * t->columns] == (double)key ? t->at + low * t->columns + 1 : NULL;
}

/* A part: units, functions, sums */

static inline double romco_clip(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static inline double romco_moderate(double mean, double variance) {
  return mean / sqrt(1.0 + 3.14159265358979323846 * (variance > 0.0 ? variance : 0.0) / 8.0);
}

typedef struct { double mean, square, centre; int spreads; } romco_moments;

static inline romco_moments romco_measure(double count, double total, double square, double share, double v) {
  romco_moments r;
  double mean = (total + v) / count, spread, sure = (count - 1.0) * mean * mean;
  r.mean = mean;
  r.square = (square + v * v) / count;
  spread = r.square - mean * mean;
  r.spreads = spread > 1e-9 * r.square;
  r.centre = mean * share * (r.spreads ? sure / (sure + spread) : 1.0);
  return r;
}

static inline double romco_unit(const romco_part *p, const double *c, double x) {
  double centre = c[5], reach = c[6], factor = c[7], row = p->number.at[0], common = p->number.at[1];
  double v = romco_clip(x, c[3]);
  if (fabs(x) < 1e-150) return row * c[8];
  if (c[0] > 0.0) {                        /* the feature is measured anew */
    romco_moments r = romco_measure(c[0], c[1], c[2], c[4], v);
    double variance = r.square - 2.0 * r.centre * r.mean + r.centre * r.centre;
    double size = sqrt(variance > 1e-9 * r.square ? variance : r.square), q = log(size) - common, q4 = q * q * q * q;
    factor = exp(-common - q * q4 / (q4 + 1.4 * 1.4 * 1.4 * 1.4));
    reach = 10.0 * size;
    centre = r.centre;
  }
  return row * factor * romco_clip(x - centre, reach);
}

static inline double romco_wave(const romco_model *m, const romco_part *p, double place, double order) {
  const double *wave, *knot, *q = m->quantile.at;
  double x, rank, kind;
  int k, below = 0, upto = 0;
  if (place < 0.0) return 1.0;             /* there is no second factor */
  wave = p->wave.at + 66 * (int64_t)place;
  kind = wave[1];
  knot = wave + 2;
  x = m->x[(int64_t)wave[0]];
  if (isnan(x) && kind == 2.0) x = 0.0;
  if (isnan(x) || (kind == 3.0 && x == 0.0)) return 0.0;
  if (kind == 0.0 && order == 0.0) return romco_clip(p->u[(int64_t)wave[0]], 8.0);
  if (kind == 0.0) return x != 0.0 && order == 1.0 ? 1.0 : 0.0;
  for (k = 0; k < 64; k++) { below += knot[k] < x; upto += knot[k] <= x; }
  if (upto > below || below == 0 || below == 64) rank = 0.5 * (below + upto) / 64.0;
  else rank = (below - 0.5 + (x - knot[below - 1]) / (knot[below] - knot[below - 1])) / 64.0;
  if (order > 0.0) return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank);
  k = rank >= 0.0 && rank < 1.0 ? (int)(64.0 * rank) : 63;
  return q[k] + (64.0 * rank - k) * (q[k + 1] - q[k]);
}

static inline void romco_add(const romco_part *p, const double *place, int64_t n, const double *value, double u) {
  int64_t k, inputs = p->stack.rows;
  for (k = 0; k < n; k++) {                /* weights, variances, factors */
    int64_t at = (int64_t)place[k];
    if (at < 2 * inputs) p->z[at] += value[k] * (at < inputs ? u : u * u); else p->z[at] = value[k];
  }
}

static inline void romco_add_feature(const romco_part *p, int64_t task, int64_t feature) {
  int64_t n = p->feature.columns;
  const double *own = romco_row(&p->pair, task * (p->feature.rows - 1) + feature);
  romco_add(p, p->feature.at, n, p->feature.at + (1 + feature) * n, p->u[feature]);
  if (own) romco_add(p, p->pair.at + 1, p->pair.columns - 1, own, p->u[feature]);
}

static inline void romco_inputs(                                /* z of a part */
    romco_model *m, romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t e, j, k, d = m->features, K = p->stack.rows, g = p->function.rows, lanes = p->task.columns;
  double squares = 0.0, *z = p->z, *u = p->u;
  for (e = 0; e < p->wave.rows; e++) m->x[(int64_t)p->wave.at[66 * e]] = NAN;
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && !isnan(value[e])) {
      m->x[feature[e]] = value[e];
      u[feature[e]] = romco_unit(p, p->unit.at + p->unit.columns * feature[e], value[e]);
      squares += u[feature[e]] * u[feature[e]];
    }
  if (squares < p->number.at[2]) for (e = 0; e < n; e++) if (feature[e] >= 0) u[feature[e]] = 0.0;
  for (k = 0; k < K; k++) {
    z[k] = p->stack.at[3 * k + 1]; z[K + k] = p->stack.at[3 * k + 2]; z[2 * K + k] = 1.0;
  }
  romco_add(p, p->task.at, lanes, p->task.at + (1 + task) * lanes, 1.0);
  for (e = 0; e < n; e++) if (feature[e] >= 0) romco_add_feature(p, task, feature[e]);
  u[d] = 1.0;                              /* the constant; then come functions */
  for (e = 0; e < g; e++) {
    const double *f = p->function.at + 5 * e, *turn = p->rotation.at + (1 + g) * e;
    double *to = u + d + 1 + e;
    *to = p->f[e] = f[4] * romco_wave(m, p, f[0], f[1]) * romco_wave(m, p, f[2], f[3]);
    if (p->rotation.rows)
      for (*to = 0.0, j = 0; j <= e; j++) *to += turn[1 + j] * (p->f[j] - p->rotation.at[(1 + g) * j]);
    romco_add_feature(p, task, d + 1 + e);
  }
  for (e = 0; e < p->entry.rows; e++) {
    const double *at = p->entry.at + 4 * e;
    z[K + (int64_t)at[0]] += at[3] * u[(int64_t)at[1]] * u[(int64_t)at[2]];
  }
  for (k = 0; k < K; k++) z[k] = z[2 * K + k] * romco_moderate(z[k], z[K + k]);
  for (e = 0; e < n; e++) if (feature[e] >= 0) u[feature[e]] = 0.0;
}

static inline double romco_part_margin(
    romco_model *m, romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t k, l, K = p->stack.rows;
  double mean = 0.0, variance = 0.0;
  romco_inputs(m, p, task, feature, value, n);
  for (k = 0; k < K; k++) {
    mean += p->stack.at[3 * k] * p->z[k];
    for (l = 0; l < p->covariance.rows; l++) variance += p->covariance.at[k * K + l] * p->z[k] * p->z[l];
  }
  return romco_moderate(mean, variance);
}

static inline double romco_margin(                              /* of two classes, or a number */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  return romco_part_margin(m, m->part, task, feature, value, n);
}

static inline double romco_probability(const romco_model *m, double margin) {
  return 1.0 / (1.0 + exp(-m->part->number.at[3] * margin));
}

/* More than two classes: pairs of classes, and a softmax with discriminants */

static inline void romco_normalise(double *score, int64_t n) {  /* scores less their log-sum */
  int64_t k;
  double best = score[0], total = 0.0;
  for (k = 1; k < n; k++) if (score[k] > best) best = score[k];
  for (k = 0; k < n; k++) total += exp(score[k] - best);
  for (k = 0; k < n; k++) score[k] -= best + log(total);
}

static inline double romco_odds(const romco_model *m, int64_t k, int64_t j) {
  return k > j ? m->odds[k * (k - 1) / 2 + j] : -m->odds[j * (j - 1) / 2 + k];
}

static inline void romco_couple(const romco_model *m, double *score) {  /* scores by pairs */
  int64_t k, j, best = 0, K = m->classes;
  for (k = 1; k < K; k++) if (romco_odds(m, k, best) > 0.0) best = k;
  for (k = 0; k < K; k++) {
    score[k] = 1.0;
    for (j = 0; j < K; j++)
      if (j != k && (j == best || k == best || (romco_odds(m, best, k) < 4.0 && romco_odds(m, best, j) < 4.0)))
        score[k] += exp(-romco_odds(m, k, j));
    score[k] = -log(score[k]);
  }
}

static inline void romco_discriminate(const romco_model *m, const romco_part *p, int64_t task, int kind, double *score) {
  int64_t i, j, k, n = m->line.rows, K = m->classes;
  double best = -INFINITY;
  for (k = 0; k < K; k++) {
    const double *own = romco_row(&m->group, task * K + k);
    const double *matrix = m->matrix.at + (kind ? 1 + k : 0) * n * n, *density = m->density.at + (kind ? 2 + 2 * k : 0);
    double events = density[0], far = 0.0, sum;
    if (!own) own = m->group.at + (m->group.rows - K + k) * m->group.columns + 1;  /* of a new task */
    for (i = 0; i < n; i++) {
      for (sum = 0.0, j = 0; j <= i; j++) sum += matrix[i * n + j] * (p->f[(int64_t)m->line.at[j]] - own[2 + j]);
      far += sum * sum;
    }
    score[K + k] = own[0];
    score[k] = -0.5 * (events + (double)n) * log1p(far / own[1] / events) - 0.5 * (double)n * log(own[1]) - density[1];
    if (score[k] > best) best = score[k];
  }
  for (k = 0; k < K; k++) score[k] = score[k] - best > -30.0 ? score[k] - best : -30.0;
}

static inline void romco_softmax(const romco_model *m, const romco_part *p, int64_t task, double *score) {
  int64_t c, k, K = m->classes;
  double *part = score + K;
  memset(score, 0, (size_t)K * sizeof *score);
  for (c = 0; c < 2 * K; c++) score[c % K] += p->stack.at[3 * c] * romco_clip(p->z[c], 50.0);
  for (c = 0; c < 2; c++) {
    romco_discriminate(m, p, task, (int)c, part);
    for (k = 0; k < K; k++) score[k] += m->weight.at[2 + c] * part[k];
  }
  for (k = 0; k < K; k++) score[k] += part[K + k];
}

static inline void romco_probabilities(                         /* of all classes */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n, double *p) {
  int64_t k, K = m->classes, pairs = m->parts - 1;
  romco_part *last = m->part + pairs;
  if (K == 2) {
    p[1] = romco_probability(m, romco_margin(m, task, feature, value, n));
    p[0] = 1.0 - p[1];
    return;
  }
  for (k = 0; k < K; k++) p[k] = 0.0;
  for (k = 0; k < pairs; k++) {
    romco_part *one = m->part + k;
    m->odds[k] = romco_clip(one->number.at[3] * romco_part_margin(m, one, task, feature, value, n), 500.0);
  }
  if (pairs) {
    romco_couple(m, m->score);
    for (k = 0; k < K; k++) p[k] += m->weight.at[0] * m->score[k];
  }
  romco_inputs(m, last, task, feature, value, n);
  romco_softmax(m, last, task, m->score);
  for (k = 0; k < K; k++) p[k] += m->weight.at[1] * m->score[k];
  romco_normalise(p, K);
  for (k = 0; k < K; k++) p[k] = exp(p[k]);
}
#endif
