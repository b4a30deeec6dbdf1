/* Predictions of a romco model from its data file. No dependencies, C99, little-endian machines.

     romco_model *m = romco_open("model.romcoexp");            NULL: no such file, or damaged
     int64_t task = romco_task(m, "ann");                      an unknown name is a new task
     int64_t feature[] = {romco_feature(m, "age"), romco_feature(m, "town=Rome")};
     double value[] = {41.0, 1.0};                             NaN: missing; unknown features: skipped
     double margin = romco_margin(m, task, feature, value, 2); log-odds of the positive class
     double p = romco_probability(m, margin);

   Use one model per thread. docs/export-format.md describes the file. */
#ifndef ROMCO_H
#define ROMCO_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const double *value; const int32_t *lane; int64_t lanes; } romco_table;
typedef struct {
  char *data;
  uint64_t bytes;
  int64_t features, tasks, inputs, pairs, entries, waves, functions;
  const double *number, *weight, *covariance, *intercept, *unit, *entry, *knot, *scale;
  const char *feature_name, *task_name;
  const int64_t *feature_start, *task_start, *pair_start;
  const int32_t *pair_feature, *entry_at, *wave_feature, *factor;
  romco_table feature, task, pair;
  double *x, *u, *part;                    /* of one event: values; units; weight, variance, factor */
} romco_model;

static inline const void *romco_block(const romco_model *m, const char *name, int64_t bytes) {
  uint64_t at = 16, place[2];              /* offset, bytes */
  uint32_t blocks;
  for (memcpy(&blocks, m->data + 12, 4); blocks > 0 && at + 40 <= m->bytes; blocks--, at += 40) {
    memcpy(place, m->data + at + 24, 16);
    if (strncmp(m->data + at, name, 24) == 0 && place[0] % 8 == 0 && place[0] <= m->bytes &&
        place[1] <= m->bytes - place[0] && place[1] == (uint64_t)bytes)
      return m->data + place[0];
  }
  return NULL;
}

static inline int romco_below(const int32_t *value, int64_t n, int64_t step, int64_t limit) {
  int64_t k;
  for (k = 0; k < n; k++) if (value[step * k] < 0 || value[step * k] >= limit) return 0;
  return 1;
}

static inline int romco_rises(const int64_t *start, int64_t n) {
  int64_t k;
  for (k = 1; k <= n; k++) if (start[k] < start[k - 1]) return 0;
  return start[0] == 0;
}

static inline int romco_read_table(romco_model *m, const char *name, romco_table *t, int64_t rows) {
  char full[24];
  snprintf(full, sizeof full, "%s.lane", name);
  t->lane = (const int32_t *)romco_block(m, full, 8 * t->lanes);
  snprintf(full, sizeof full, "%s.value", name);
  t->value = (const double *)romco_block(m, full, 8 * rows * t->lanes);
  return t->lane && t->value && romco_below(t->lane, t->lanes, 2, 3) &&
    romco_below(t->lane + 1, t->lanes, 2, m->inputs);
}

static inline int romco_read(romco_model *m) {    /* 1 if the file holds together */
  int64_t d, n, K, k, total, size[10];
  const void *sizes;
  if (m->bytes < 16 || memcmp(m->data, "romcoexp\1\0\0\0", 12) != 0) return 0;
  if (!(sizes = romco_block(m, "size", sizeof size))) return 0;
  memcpy(size, sizes, sizeof size);
  for (k = 0; k < 10; k++) if (size[k] < 0 || size[k] >> (k < 4 ? 40 : 16)) return 0;
  m->features = d = size[0]; m->tasks = n = size[1]; m->pairs = size[2]; m->entries = size[3];
  m->inputs = K = size[4];
  m->waves = size[8]; m->functions = size[9]; total = d + 1 + size[9];
  m->feature.lanes = size[5]; m->task.lanes = size[6]; m->pair.lanes = size[7];
  return
    (m->number = (const double *)romco_block(m, "number", 8 * 4)) &&
    (m->weight = (const double *)romco_block(m, "stack.weight", 8 * K)) &&
    (m->covariance = (const double *)romco_block(m, "stack.covariance", 8 * K * K)) &&
    (m->intercept = (const double *)romco_block(m, "intercept", 8 * K)) &&
    (m->unit = (const double *)romco_block(m, "unit", 8 * 9 * d)) &&
    (m->feature_start = (const int64_t *)romco_block(m, "feature.start", 8 * (d + 1))) &&
    romco_rises(m->feature_start, d) &&
    (m->feature_name = (const char *)romco_block(m, "feature.name", m->feature_start[d])) &&
    (m->task_start = (const int64_t *)romco_block(m, "task.start", 8 * (n + 1))) &&
    romco_rises(m->task_start, n) &&
    (m->task_name = (const char *)romco_block(m, "task.name", m->task_start[n])) &&
    (m->pair_start = (const int64_t *)romco_block(m, "pair.start", 8 * (n + 2))) &&
    romco_rises(m->pair_start, n + 1) && m->pair_start[n + 1] == m->pairs &&
    (m->pair_feature = (const int32_t *)romco_block(m, "pair.feature", 4 * m->pairs)) &&
    (m->entry_at = (const int32_t *)romco_block(m, "covariance.at", 12 * m->entries)) &&
    (m->entry = (const double *)romco_block(m, "covariance.value", 8 * m->entries)) &&
    romco_below(m->entry_at, m->entries, 3, K) &&
    romco_below(m->entry_at + 1, m->entries, 3, total) &&
    romco_below(m->entry_at + 2, m->entries, 3, total) &&
    (m->wave_feature = (const int32_t *)romco_block(m, "wave.feature", 4 * m->waves)) &&
    romco_below(m->wave_feature, m->waves, 1, d) &&
    (m->knot = (const double *)romco_block(m, "wave.knot", 8 * 33 * m->waves)) &&
    (m->factor = (const int32_t *)romco_block(m, "function.factor", 16 * m->functions)) &&
    (m->scale = (const double *)romco_block(m, "function.scale", 8 * m->functions)) &&
    romco_below(m->factor, m->functions, 4, m->waves) &&
    romco_read_table(m, "feature", &m->feature, total) &&
    romco_read_table(m, "task", &m->task, n + 1) &&
    romco_read_table(m, "pair", &m->pair, m->pairs) &&
    (m->x = (double *)calloc((size_t)d + 1, sizeof(double))) &&
    (m->u = (double *)calloc((size_t)total, sizeof(double))) &&
    (m->part = (double *)calloc(3 * (size_t)K + 1, sizeof(double)));
}

static inline void romco_close(romco_model *m) {
  if (m) { free(m->data); free(m->x); free(m->u); free(m->part); free(m); }
}

static inline romco_model *romco_open(const char *path) {
  romco_model *m = (romco_model *)calloc(1, sizeof *m);
  FILE *file = fopen(path, "rb");
  long size = -1;
  if (m && file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
    rewind(file);
    m->data = (char *)malloc((size_t)size + 1);
    if (m->data) m->bytes = fread(m->data, 1, (size_t)size, file);
  }
  if (file) fclose(file);
  if (m && m->data && romco_read(m)) return m;
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

static inline int64_t romco_task(const romco_model *m, const char *name) {
  int64_t k = romco_find(m->task_name, m->task_start, m->tasks, name);
  return k < 0 ? m->tasks : k;
}

static inline int64_t romco_feature(const romco_model *m, const char *name) {
  return romco_find(m->feature_name, m->feature_start, m->features, name);
}

static inline double romco_clip(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static inline double romco_moderate(double mean, double variance) {
  return mean / sqrt(1.0 + 3.14159265358979323846 * (variance > 0.0 ? variance : 0.0) / 8.0);
}

static inline double romco_unit(const romco_model *m, const double *c, double x) {
  double centre = c[5], reach = c[6], factor = c[7], row = m->number[0], common = m->number[1];
  if (fabs(x) < 1e-150) return row * c[8];
  if (c[0] > 0.0) {                        /* the feature is measured anew */
    double v = romco_clip(x, c[3]), mean = (c[1] + v) / c[0], square = (c[2] + v * v) / c[0];
    double variance = square - mean * mean, sure = (c[0] - 1.0) * mean * mean, size, r, r4;
    centre = mean * c[4] * (variance > 1e-9 * square ? sure / (sure + variance) : 1.0);
    variance = square - 2.0 * centre * mean + centre * centre;
    size = sqrt(variance > 1e-9 * square ? variance : square);
    r = log(size) - common;
    r4 = r * r * r * r;
    factor = exp(-common - r * r4 / (r4 + 1.4 * 1.4 * 1.4 * 1.4));
    reach = 10.0 * size;
  }
  return row * factor * romco_clip(x - centre, reach);
}

static inline void romco_add(const romco_model *m, const romco_table *t, int64_t row, double u) {
  int64_t k;
  for (k = 0; k < t->lanes; k++) {
    int32_t part = t->lane[2 * k];
    double *sum = m->part + part * m->inputs + t->lane[2 * k + 1], value = t->value[row * t->lanes + k];
    if (part == 2) *sum = value; else *sum += value * (part == 0 ? u : u * u);
  }
}

static inline double romco_wave(const romco_model *m, int32_t place, int32_t order) {
  const double *c, *knot;
  double x, rank;
  int k, below = 0, upto = 0;
  if (place < 0) return 1.0;               /* there is no second factor */
  if (place >= m->waves) return NAN;
  c = m->knot + 33 * (int64_t)place;
  knot = c + 1;
  x = m->x[m->wave_feature[place]];
  if (isnan(x) || (x == 0.0 && !(c[0] > 0.0))) return 0.0;
  if (!(c[0] > 0.0)) return order == 1 ? 1.0 : 0.0;
  for (k = 0; k < 32; k++) { below += knot[k] < x; upto += knot[k] <= x; }
  if (upto > below || below == 0 || below == 32) rank = 0.5 * (below + upto) / 32.0;
  else rank = (below - 0.5 + (x - knot[below - 1]) / (knot[below] - knot[below - 1])) / 32.0;
  return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank);
}

static inline double romco_margin(
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t e, k, l, K = m->inputs, begin, end = m->pair_start[task + 1];
  double squares = 0.0, mean = 0.0, variance = 0.0, *z = m->part;
  for (e = 0; e < m->waves; e++) m->x[m->wave_feature[e]] = NAN;
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && !isnan(value[e])) {
      m->x[feature[e]] = value[e];
      m->u[feature[e]] = romco_unit(m, m->unit + 9 * feature[e], value[e]);
      squares += m->u[feature[e]] * m->u[feature[e]];
    }
  m->u[m->features] = 1.0;                 /* the constant */
  for (k = 0; k < K; k++) { z[k] = m->intercept[k]; z[K + k] = 0.0; z[2 * K + k] = 1.0; }
  romco_add(m, &m->task, task, 1.0);
  for (e = 0; e < n; e++)
    if (feature[e] >= 0) {
      int64_t low = m->pair_start[task], high = end;
      if (squares < m->number[2]) m->u[feature[e]] = 0.0;
      romco_add(m, &m->feature, feature[e], m->u[feature[e]]);
      while (low < high) {
        begin = (low + high) / 2;
        if (m->pair_feature[begin] < feature[e]) low = begin + 1; else high = begin;
      }
      if (low < end && m->pair_feature[low] == feature[e])
        romco_add(m, &m->pair, low, m->u[feature[e]]);
    }
  for (e = 0; e < m->functions; e++) {
    const int32_t *f = m->factor + 4 * e;
    double *u = m->u + m->features + 1 + e;
    *u = m->scale[e] * romco_wave(m, f[0], f[1]) * romco_wave(m, f[2], f[3]);
    romco_add(m, &m->feature, m->features + 1 + e, *u);
  }
  for (e = 0; e < m->entries; e++) {
    const int32_t *at = m->entry_at + 3 * e;
    z[K + at[0]] += m->entry[e] * m->u[at[1]] * m->u[at[2]];
  }
  for (k = 0; k < K; k++) z[k] = z[2 * K + k] * romco_moderate(z[k], z[K + k]);
  for (k = 0; k < K; k++) {
    mean += m->weight[k] * z[k];
    for (l = 0; l < K; l++) variance += m->covariance[k * K + l] * z[k] * z[l];
  }
  for (e = 0; e < n; e++) if (feature[e] >= 0) m->u[feature[e]] = 0.0;
  return romco_moderate(mean, variance);
}

static inline double romco_probability(const romco_model *m, double margin) {
  return 1.0 / (1.0 + exp(-m->number[3] * margin));
}
#endif
