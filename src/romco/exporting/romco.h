/* Predictions of a romco model from its data file. No dependencies, C99, little-endian machines.

     romco_model *m = romco_open("model.romcoexp");            NULL: no such file, or damaged
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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROMCO_KNOTS = 64 };                 /* of a feature with waves */

typedef struct {                           /* at first, the blocks of a part in their order */
  const int64_t *size;
  const double *number, *weight, *covariance, *intercept, *unit;
  const int32_t *feature_lane; const double *feature_value;
  const int32_t *task_lane; const double *task_value;
  const int32_t *pair_lane; const int64_t *pair_start; const int32_t *pair_feature; const double *pair_value;
  const int32_t *entry_at; const double *entry;
  const int32_t *wave_feature; const double *knot;
  const int32_t *factor; const double *scale, *centre, *rotation;
  double *u, *f, *z;                       /* of one event: units; functions; weight, variance, factor */
} romco_part;

typedef struct {                           /* at first, the other blocks in their order */
  const int64_t *size;
  const double *number;
  const int64_t *feature_start; const char *feature_name;
  const int64_t *task_start; const char *task_name;
  const int64_t *class_start; const char *class_name;
  const double *quantile;
  const int32_t *line; const double *matrix, *density;
  const int64_t *group_start; const int32_t *group_class; const double *group;
  char *data;
  romco_part *part;
  double *x, *odds, *score;                /* of one event: values; log-odds of pairs; scores of classes */
} romco_model;

static inline size_t romco_point(const char *data, size_t block, void *to, size_t bytes) {
  size_t k;
  for (k = 0; k < bytes / sizeof(void *); k++, block++) {
    uint64_t offset;
    const void *at;
    memcpy(&offset, data + 16 + 40 * block + 24, 8);
    at = data + offset;
    memcpy((char *)to + k * sizeof at, &at, sizeof at);
  }
  return block;
}

static inline int romco_read(romco_model *m, size_t bytes) {    /* 0: damaged, or no memory */
  uint32_t a = 1, b = 0, version, checksum;
  size_t k, block;
  int64_t i;
  if (bytes < 20 || memcmp(m->data, "romcoexp", 8) != 0) return 0;
  memcpy(&version, m->data + 8, 4);
  memcpy(&checksum, m->data + bytes - 4, 4);
  for (k = 0; k < bytes - 4; k++) {        /* Adler-32 */
    a = (a + (unsigned char)m->data[k]) % 65521;
    b = (b + a) % 65521;
  }
  if (version != 2 || checksum != (b << 16 | a)) return 0;
  block = romco_point(m->data, 0, m, offsetof(romco_model, data));
  m->x = (double *)calloc((size_t)m->size[0] + 1, sizeof(double));
  m->odds = (double *)calloc((size_t)m->size[4] + 1, sizeof(double));
  m->score = (double *)calloc(3 * (size_t)m->size[2] + 1, sizeof(double));
  m->part = (romco_part *)calloc((size_t)m->size[3] + 1, sizeof(romco_part));
  for (i = 0; m->part && i < m->size[3]; i++) {
    romco_part *p = m->part + i;
    block = romco_point(m->data, block, p, offsetof(romco_part, u));
    p->u = (double *)calloc((size_t)(m->size[0] + 1 + 2 * p->size[6] + 3 * p->size[1]), sizeof(double));
    if (!p->u) return 0;
    p->f = p->u + m->size[0] + 1 + p->size[6];
    p->z = p->f + p->size[6];
  }
  return m->x && m->odds && m->score && m->part;
}

static inline void romco_close(romco_model *m) {
  int64_t k;
  if (!m) return;
  for (k = 0; m->part && k < m->size[3]; k++) free(m->part[k].u);
  free(m->data); free(m->x); free(m->odds); free(m->score); free(m->part); free(m);
}

static inline romco_model *romco_open(const char *path) {
  romco_model *m = (romco_model *)calloc(1, sizeof *m);
  FILE *file = fopen(path, "rb");
  long size = -1;
  size_t bytes = 0;
  if (m && file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0) {
    rewind(file);
    m->data = (char *)malloc((size_t)size);
    if (m->data) bytes = fread(m->data, 1, (size_t)size, file);
  }
  if (file) fclose(file);
  if (bytes > 0 && romco_read(m, bytes)) return m;
  romco_close(m);
  return NULL;
}

static inline int64_t romco_find(const char *text, const int64_t *start, int64_t n, const char *name) {
  int64_t low = 0, high = n, size = (int64_t)strlen(name);
  while (low < high) {                     /* names are sorted by their bytes */
    int64_t k = (low + high) / 2, length = start[k + 1] - start[k];
    int order = memcmp(text + start[k], name, (size_t)(length < size ? length : size));
    if (order == 0 && length == size) return k;
    if (order < 0 || (order == 0 && length < size)) low = k + 1; else high = k;
  }
  return -1;
}

static inline int64_t romco_feature(const romco_model *m, const char *name) {
  return romco_find(m->feature_name, m->feature_start, m->size[0], name);
}

static inline int64_t romco_task(const romco_model *m, const char *name) {
  int64_t k = romco_find(m->task_name, m->task_start, m->size[1], name);
  return k < 0 ? m->size[1] : k;
}

static inline int64_t romco_row(const int64_t *start, const int32_t *key, int64_t task, int64_t k) {
  int64_t low = start[task], high = start[task + 1], end = high;
  while (low < high) {                     /* keys of a task rise */
    int64_t middle = (low + high) / 2;
    if (key[middle] < k) low = middle + 1; else high = middle;
  }
  return low < end && key[low] == k ? low : -1;
}

static inline double romco_clip(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static inline double romco_moderate(double mean, double variance) {
  return mean / sqrt(1.0 + 3.14159265358979323846 * (variance > 0.0 ? variance : 0.0) / 8.0);
}

static inline double romco_unit(const romco_part *p, const double *c, double x) {
  double centre = c[5], reach = c[6], factor = c[7], row = p->number[0], common = p->number[1];
  double v = romco_clip(x, c[3]), mean, square, variance, sure;
  int of_pair = p->size[8] > 9, spreads = 1;
  if (fabs(x) < 1e-150) return row * c[8];
  if (c[0] > 0.0) {                        /* the feature is measured anew */
    double size, r, r4;
    mean = (c[1] + v) / c[0]; square = (c[2] + v * v) / c[0];
    variance = square - mean * mean; sure = (c[0] - 1.0) * mean * mean;
    spreads = variance > 1e-9 * square;
    centre = mean * c[4] * (spreads ? sure / (sure + variance) : 1.0);
    variance = square - 2.0 * centre * mean + centre * centre;
    size = sqrt(variance > 1e-9 * square ? variance : square);
    r = log(size) - common;
    r4 = r * r * r * r;
    factor = exp(-common - r * r4 / (r4 + 1.4 * 1.4 * 1.4 * 1.4));
    reach = 10.0 * size;
    if (of_pair && spreads) centre = 0.0;
  }
  if (of_pair && spreads && c[9] > 0.0) {  /* centred by the two classes */
    mean = (c[10] + v) / c[9]; square = (c[11] + v * v) / c[9];
    variance = square - mean * mean; sure = (c[9] - 1.0) * mean * mean;
    centre = mean * c[12] * (variance > 1e-9 * square ? sure / (sure + variance) : 1.0);
    if (c[13] > 0.0) { reach = c[13]; factor = c[14]; }
  }
  return row * factor * romco_clip(x - centre, reach);
}

static inline double romco_wave(const romco_model *m, const romco_part *p, int32_t place, int32_t order) {
  const double *knot, *q = m->quantile;
  double x, rank;
  int k, below = 0, upto = 0;
  if (place < 0) return 1.0;               /* there is no second factor */
  knot = p->knot + (1 + ROMCO_KNOTS) * (int64_t)place;
  x = m->x[p->wave_feature[place]];
  if (isnan(x) && knot[0] == 2.0) x = 0.0;
  if (isnan(x) || (knot[0] == 3.0 && x == 0.0)) return 0.0;
  if (knot[0] == 0.0 && order == 0) return romco_clip(p->u[p->wave_feature[place]], 8.0);
  if (knot[0] == 0.0) return x != 0.0 && order == 1 ? 1.0 : 0.0;
  for (k = 1; k <= ROMCO_KNOTS; k++) { below += knot[k] < x; upto += knot[k] <= x; }
  if (upto > below || below == 0 || below == ROMCO_KNOTS) rank = 0.5 * (below + upto) / ROMCO_KNOTS;
  else rank = (below - 0.5 + (x - knot[below]) / (knot[below + 1] - knot[below])) / ROMCO_KNOTS;
  if (order > 0) return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank);
  k = rank < 1.0 ? (int)(64.0 * rank) : 63;
  return q[k] + (64.0 * rank - k) * (q[k + 1] - q[k]);
}

static inline void romco_add(
    const romco_part *p, const int32_t *lane, int64_t lanes, const double *value, double u) {
  int64_t k;
  for (k = 0; k < lanes; k++) {
    int32_t part = lane[2 * k];
    double *sum = p->z + part * p->size[1] + lane[2 * k + 1];
    if (part == 2) *sum = value[k]; else *sum += value[k] * (part == 0 ? u : u * u);
  }
}

static inline void romco_add_feature(const romco_part *p, int64_t task, int64_t feature) {
  int64_t lanes = p->size[2], own = p->size[4], row = romco_row(p->pair_start, p->pair_feature, task, feature);
  romco_add(p, p->feature_lane, lanes, p->feature_value + feature * lanes, p->u[feature]);
  if (row >= 0) romco_add(p, p->pair_lane, own, p->pair_value + row * own, p->u[feature]);
}

static inline void romco_inputs(                                /* z of a part */
    romco_model *m, romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t e, j, k, d = m->size[0], K = p->size[1], g = p->size[6];
  double squares = 0.0, *z = p->z, *u = p->u;
  for (e = 0; e < p->size[5]; e++) m->x[p->wave_feature[e]] = NAN;
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && !isnan(value[e])) {
      m->x[feature[e]] = value[e];
      u[feature[e]] = romco_unit(p, p->unit + p->size[8] * feature[e], value[e]);
      squares += u[feature[e]] * u[feature[e]];
    }
  if (squares < p->number[2]) for (e = 0; e < n; e++) if (feature[e] >= 0) u[feature[e]] = 0.0;
  for (k = 0; k < K; k++) { z[k] = p->intercept[k]; z[K + k] = p->intercept[K + k]; z[2 * K + k] = 1.0; }
  romco_add(p, p->task_lane, p->size[3], p->task_value + task * p->size[3], 1.0);
  for (e = 0; e < n; e++) if (feature[e] >= 0) romco_add_feature(p, task, feature[e]);
  u[d] = 1.0;                              /* the constant; then come functions */
  for (e = 0; e < g; e++) {
    const int32_t *f = p->factor + 4 * e;
    double *to = u + d + 1 + e;
    *to = p->f[e] = p->scale[e] * romco_wave(m, p, f[0], f[1]) * romco_wave(m, p, f[2], f[3]);
    if (p->size[7]) for (*to = 0.0, j = 0; j <= e; j++) *to += p->rotation[e * g + j] * (p->f[j] - p->centre[j]);
    romco_add_feature(p, task, d + 1 + e);
  }
  for (e = 0; e < p->size[0]; e++) {
    const int32_t *at = p->entry_at + 3 * e;
    z[K + at[0]] += p->entry[e] * u[at[1]] * u[at[2]];
  }
  for (k = 0; k < K; k++) z[k] = z[2 * K + k] * romco_moderate(z[k], z[K + k]);
  for (e = 0; e < n; e++) if (feature[e] >= 0) u[feature[e]] = 0.0;
}

static inline double romco_part_margin(
    romco_model *m, romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t k, l, K = p->size[1];
  double mean = 0.0, variance = 0.0;
  romco_inputs(m, p, task, feature, value, n);
  for (k = 0; k < K; k++) {
    mean += p->weight[k] * p->z[k];
    for (l = 0; l < K; l++) variance += p->covariance[k * K + l] * p->z[k] * p->z[l];
  }
  return romco_moderate(mean, variance);
}

static inline double romco_margin(                              /* of two classes, or a number */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  return romco_part_margin(m, m->part, task, feature, value, n);
}

static inline double romco_probability(const romco_model *m, double margin) {
  return 1.0 / (1.0 + exp(-m->part->number[3] * margin));
}

static inline int64_t romco_classes(const romco_model *m) { return m->size[2]; }

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

static inline void romco_couple(const romco_model *m, double *score) {  /* log-probabilities by pairs */
  int64_t k, j, best = 0, K = m->size[2];
  for (k = 1; k < K; k++) if (romco_odds(m, k, best) > 0.0) best = k;
  for (k = 0; k < K; k++) {
    score[k] = 1.0;
    for (j = 0; j < K; j++)
      if (j != k && (j == best || k == best || (romco_odds(m, best, k) < 4.0 && romco_odds(m, best, j) < 4.0)))
        score[k] += exp(-romco_odds(m, k, j));
    score[k] = -m->number[0] * log(score[k]);
  }
  romco_normalise(score, K);
  for (k = 0; k < K; k++) score[k] = log((1.0 - m->number[1]) * exp(score[k]) + m->number[1] / (double)K);
}

static inline void romco_discriminate(const romco_model *m, const romco_part *p, int64_t task, int kind, double *score) {
  int64_t i, j, k, n = m->size[5], K = m->size[2];
  double best = -INFINITY;
  for (k = 0; k < K; k++) {
    int64_t row = romco_row(m->group_start, m->group_class, task, k), at = kind ? 1 + k : 0;
    const double *own = m->group + (2 + n) * (row < 0 ? m->group_start[m->size[1]] + k : row);
    const double *matrix = m->matrix + at * n * n;
    double events = m->density[2 * at], far = 0.0, sum;
    for (i = 0; i < n; i++) {
      for (sum = 0.0, j = 0; j <= i; j++) sum += matrix[i * n + j] * (p->f[m->line[j]] - own[2 + j]);
      far += sum * sum;
    }
    score[K + k] = own[0];
    score[k] = -0.5 * (events + (double)n) * log1p(far / own[1] / events) - 0.5 * (double)n * log(own[1]) - m->density[2 * at + 1];
    if (score[k] > best) best = score[k];
  }
  for (k = 0; k < K; k++) score[k] = score[k] - best > -30.0 ? score[k] - best : -30.0;
}

static inline void romco_softmax(const romco_model *m, const romco_part *p, int64_t task, double *score) {
  int64_t c, k, K = m->size[2];
  double *part = score + K;
  memset(score, 0, (size_t)K * sizeof *score);
  for (c = 0; c < 3; c++) for (k = 0; k < K; k++) score[k] += p->weight[c * K + k] * romco_clip(p->z[c * K + k], 50.0);
  for (c = 0; c < 2; c++) {
    romco_discriminate(m, p, task, (int)c, part);
    for (k = 0; k < K; k++) score[k] += m->number[4 + c] * part[k];
  }
  for (k = 0; k < K; k++) score[k] += part[K + k];
  romco_normalise(score, K);
}

static inline void romco_probabilities(                         /* of all classes */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n, double *p) {
  int64_t k, K = m->size[2], pairs = m->size[4];
  romco_part *last = m->part + pairs;
  if (K == 2) {
    p[1] = romco_probability(m, romco_margin(m, task, feature, value, n));
    p[0] = 1.0 - p[1];
    return;
  }
  for (k = 0; k < K; k++) p[k] = 0.0;
  for (k = 0; k < pairs; k++) {
    romco_part *one = m->part + k;
    m->odds[k] = romco_clip(one->number[3] * romco_part_margin(m, one, task, feature, value, n), 500.0);
  }
  if (pairs) {
    romco_couple(m, m->score);
    for (k = 0; k < K; k++) p[k] += m->number[2] * m->score[k];
  }
  if (m->size[3] > pairs) {
    romco_inputs(m, last, task, feature, value, n);
    romco_softmax(m, last, task, m->score);
    for (k = 0; k < K; k++) p[k] += m->number[3] * m->score[k];
  }
  romco_normalise(p, K);
  for (k = 0; k < K; k++) p[k] = exp(p[k]);
}
#endif
