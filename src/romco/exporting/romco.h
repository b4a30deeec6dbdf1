/* Predictions of a romco model from its data file. No dependencies, C99, little-endian machines.

     romco_model *m = romco_open("model.romcoexp");            NULL: no such file, or damaged
     int64_t task = romco_task(m, "ann");                      an unknown name is a new task
     int64_t feature[] = {romco_feature(m, "age"), romco_feature(m, "town=Rome")};
     double value[] = {41.0, 1.0};                             NaN: missing; unknown features: skipped
     double margin = romco_margin(m, task, feature, value, 2); log-odds, or the predicted number
     double p = romco_probability(m, margin);                  of the positive class

   Use one model per thread. docs/export-format.md describes the file. */
#ifndef ROMCO_H
#define ROMCO_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {                           /* at first, the blocks of the file in their order */
  const int64_t *size;
  const double *number, *weight, *covariance, *intercept, *unit;
  const int64_t *feature_start; const char *feature_name;
  const int32_t *feature_lane; const double *feature_value;
  const int64_t *task_start; const char *task_name;
  const int32_t *task_lane; const double *task_value;
  const int64_t *pair_start; const int32_t *pair_feature, *pair_lane; const double *pair_value;
  const int32_t *entry_at; const double *entry;
  const int32_t *wave_feature; const double *knot;
  const int32_t *factor; const double *scale;
  char *data;
  double *x, *u, *part;                    /* of one event: values; units; weight, variance, factor */
} romco_model;

static inline int romco_read(romco_model *m, size_t bytes) {    /* 0: damaged, or no memory */
  uint32_t a = 1, b = 0, version, checksum;
  uint64_t offset;
  size_t k;
  if (bytes < 20 || memcmp(m->data, "romcoexp", 8) != 0) return 0;
  memcpy(&version, m->data + 8, 4);
  memcpy(&checksum, m->data + bytes - 4, 4);
  for (k = 0; k < bytes - 4; k++) {        /* Adler-32 */
    a = (a + (unsigned char)m->data[k]) % 65521;
    b = (b + a) % 65521;
  }
  if (version != 1 || checksum != (b << 16 | a)) return 0;
  for (k = 0; k < offsetof(romco_model, data) / sizeof(void *); k++) {
    const void *block;
    memcpy(&offset, m->data + 16 + 40 * k + 24, 8);
    block = m->data + offset;
    memcpy((char *)m + k * sizeof block, &block, sizeof block);
  }
  m->x = (double *)calloc((size_t)m->size[0] + 1, sizeof(double));
  m->u = (double *)calloc((size_t)(m->size[0] + 1 + m->size[9]), sizeof(double));
  m->part = (double *)calloc(3 * (size_t)m->size[4], sizeof(double));
  return m->x && m->u && m->part;
}

static inline void romco_close(romco_model *m) {
  if (m) { free(m->data); free(m->x); free(m->u); free(m->part); free(m); }
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

static inline double romco_wave(const romco_model *m, int32_t place, int32_t order) {
  const double *knot;
  double x, rank;
  int k, below = 0, upto = 0;
  if (place < 0) return 1.0;               /* there is no second factor */
  knot = m->knot + 65 * (int64_t)place;
  x = m->x[m->wave_feature[place]];
  if (isnan(x)) return 0.0;
  if (knot[0] == 0.0) return x != 0.0 && order == 1 ? 1.0 : 0.0;
  for (k = 1; k <= 64; k++) { below += knot[k] < x; upto += knot[k] <= x; }
  if (upto > below || below == 0 || below == 64) rank = 0.5 * (below + upto) / 64.0;
  else rank = (below - 0.5 + (x - knot[below]) / (knot[below + 1] - knot[below])) / 64.0;
  return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank);
}

static inline void romco_add(
    const romco_model *m, const int32_t *lane, int64_t lanes, const double *value, double u) {
  int64_t k;
  for (k = 0; k < lanes; k++) {
    int32_t part = lane[2 * k];
    double *sum = m->part + part * m->size[4] + lane[2 * k + 1];
    if (part == 2) *sum = value[k]; else *sum += value[k] * (part == 0 ? u : u * u);
  }
}

static inline void romco_add_feature(const romco_model *m, int64_t task, int64_t feature) {
  int64_t low = m->pair_start[task], high = m->pair_start[task + 1], end = high;
  int64_t lanes = m->size[5], own = m->size[7];
  double u = m->u[feature];
  romco_add(m, m->feature_lane, lanes, m->feature_value + feature * lanes, u);
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (m->pair_feature[middle] < feature) low = middle + 1; else high = middle;
  }
  if (low < end && m->pair_feature[low] == feature)
    romco_add(m, m->pair_lane, own, m->pair_value + low * own, u);
}

static inline double romco_margin(
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  int64_t e, k, l, d = m->size[0], K = m->size[4];
  double squares = 0.0, mean = 0.0, variance = 0.0, *z = m->part;
  for (e = 0; e < m->size[8]; e++) m->x[m->wave_feature[e]] = NAN;
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && !isnan(value[e])) {
      m->x[feature[e]] = value[e];
      m->u[feature[e]] = romco_unit(m, m->unit + 9 * feature[e], value[e]);
      squares += m->u[feature[e]] * m->u[feature[e]];
    }
  if (squares < m->number[2]) for (e = 0; e < n; e++) if (feature[e] >= 0) m->u[feature[e]] = 0.0;
  for (k = 0; k < K; k++) { z[k] = m->intercept[k]; z[K + k] = 0.0; z[2 * K + k] = 1.0; }
  romco_add(m, m->task_lane, m->size[6], m->task_value + task * m->size[6], 1.0);
  for (e = 0; e < n; e++) if (feature[e] >= 0) romco_add_feature(m, task, feature[e]);
  m->u[d] = 1.0;                           /* the constant; then come functions */
  for (e = 0; e < m->size[9]; e++) {
    const int32_t *f = m->factor + 4 * e;
    m->u[d + 1 + e] = m->scale[e] * romco_wave(m, f[0], f[1]) * romco_wave(m, f[2], f[3]);
    romco_add_feature(m, task, d + 1 + e);
  }
  for (e = 0; e < m->size[3]; e++) {
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
