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

typedef struct { double *at; int64_t rows, columns; } romco_table;

typedef struct {                           /* tables of one margin, or of the softmax */
  romco_table stack, wave, function, rotation, unit, feature, task, pair, covariance;
} romco_part;

typedef struct {
  romco_table text, name, quantile, calibration, weight, line, matrix, density, group;
  int64_t features, tasks, classes, parts;
  char *data, *next, *end;                 /* of the file */
  romco_part *part;
  romco_table x, u, f, z, odds, score;     /* of one event: values, units, functions, inputs; of pairs, of classes */
} romco_model;

typedef struct { int64_t task; const int64_t *feature; const double *value; int64_t n; } romco_event;

/* A damaged file cannot do harm: a number outside of a table is 0. */
static inline double romco_get(const romco_table *t, int64_t row, int64_t column) {
  int inside = row >= 0 && row < t->rows && column >= 0 && column < t->columns;
  return inside ? t->at[row * t->columns + column] : 0;
}

static inline int64_t romco_index(const romco_table *t, int64_t row, int64_t column) {  /* -1: none */
  double x = romco_get(t, row, column);
  return x >= 0 && x < 1e18 ? (int64_t)x : -1;
}

/* Reading */

static inline uint32_t romco_checksum(const char *byte, const char *end) {  /* Adler-32 */
  uint32_t a = 1, b = 0;
  for (; byte < end; byte++) { a = (a + (unsigned char)*byte) % 65521; b = (b + a) % 65521; }
  return b << 16 | a;
}

static inline int romco_next(romco_model *m, romco_table *t) {
  uint64_t shape[2], left = (uint64_t)(m->end - m->next);
  if (left < sizeof shape) return 0;
  memcpy(shape, m->next, sizeof shape);
  left = (left - sizeof shape) / 8;
  if (shape[0] >> 31 || shape[1] >> 31 || shape[0] * shape[1] > left || (shape[0] && !shape[1])) return 0;
  t->at = (double *)(void *)(m->next + sizeof shape);
  t->rows = (int64_t)shape[0];
  t->columns = (int64_t)shape[1];
  m->next += sizeof shape + 8 * shape[0] * shape[1];
  return 1;
}

static inline int romco_read_part(romco_model *m, romco_part *p) {
  return romco_next(m, &p->stack) && romco_next(m, &p->wave) && romco_next(m, &p->function)
         && romco_next(m, &p->rotation) && romco_next(m, &p->unit) && romco_next(m, &p->feature)
         && romco_next(m, &p->task) && romco_next(m, &p->pair) && romco_next(m, &p->covariance);
}

static inline int romco_make(romco_table *t, int64_t rows, double value) {
  t->at = (double *)malloc(((size_t)rows + 1) * sizeof(double));
  t->columns = 1;
  for (t->rows = 0; t->at && t->rows < rows; t->rows++) t->at[t->rows] = value;
  return t->at != NULL;
}

static inline int romco_read(romco_model *m, size_t size) {     /* 0: damaged, or no memory */
  int64_t k, d, K, f = 0, z = 0;
  uint32_t checksum;
  if (size < 20 || memcmp(m->data, "romcoexp\5\0\0\0\0\0\0", 16) != 0) return 0;
  m->next = m->data + 16;
  m->end = m->data + size - 4;
  memcpy(&checksum, m->end, 4);
  if (checksum != romco_checksum(m->data, m->end)) return 0;
  if (!romco_next(m, &m->text) || !romco_next(m, &m->name) || !romco_next(m, &m->quantile)
      || !romco_next(m, &m->calibration) || m->calibration.rows == 0) return 0;
  m->parts = m->calibration.rows;
  m->part = (romco_part *)calloc((size_t)m->parts, sizeof(romco_part));
  if (!m->part) return 0;
  for (k = 0; k < m->parts; k++) {
    romco_part *p = m->part + k;
    if (!romco_read_part(m, p)) return 0;
    if (p->function.rows > f) f = p->function.rows;
    if (p->stack.rows > z) z = p->stack.rows;
  }
  m->features = d = m->part->unit.rows;
  m->tasks = m->part->task.rows - 2;
  m->classes = K = m->name.rows - d - m->tasks - 2;
  if (m->tasks < 0 || K < 0 || (m->parts > 1 && (K < 3 || m->parts != 1 + K * (K - 1) / 2))) return 0;
  if (m->text.rows < 1 || m->text.columns != 1 || ((char *)m->text.at)[8 * m->text.rows - 1]) return 0;
  if (K > 2 && !(romco_next(m, &m->weight) && romco_next(m, &m->line) && romco_next(m, &m->matrix)
                 && romco_next(m, &m->density) && romco_next(m, &m->group))) return 0;
  return romco_make(&m->x, d, NAN) && romco_make(&m->u, d + 1 + f, 0) && romco_make(&m->f, f, 0)
         && romco_make(&m->z, 3 * z, 0) && romco_make(&m->odds, m->parts, 0) && romco_make(&m->score, 2 * K, 0);
}

static inline void romco_close(romco_model *m) {
  if (!m) return;
  free(m->x.at); free(m->u.at); free(m->f.at); free(m->z.at); free(m->odds.at); free(m->score.at);
  free(m->part); free(m->data); free(m);
}

static inline romco_model *romco_open(const char *path) {
  romco_model *m = (romco_model *)calloc(1, sizeof *m);
  FILE *file = fopen(path, "rb");
  long size = -1;
  int is_read = 0;
  if (m && file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0) {
    rewind(file);
    m->data = (char *)malloc((size_t)size);
    is_read = m->data && romco_read(m, fread(m->data, 1, (size_t)size, file));
  }
  if (file) fclose(file);
  if (is_read) return m;
  romco_close(m);
  return NULL;
}

/* Names and rows */

static inline const char *romco_name(const romco_model *m, int64_t k) {
  int64_t at = romco_index(&m->name, k, 0);
  return (const char *)m->text.at + (at >= 0 && at < 8 * m->text.rows ? at : 0);
}

static inline int64_t romco_find(const romco_model *m, int64_t first, int64_t n, const char *name) {
  int64_t low = first, high = first + n;
  while (low < high) {                     /* names are sorted by their bytes */
    int64_t middle = (low + high) / 2;
    if (strcmp(romco_name(m, middle), name) < 0) low = middle + 1; else high = middle;
  }
  if (low == first + n || strcmp(romco_name(m, low), name) != 0) return -1;
  return romco_name(m, low + 1) - romco_name(m, low) == (int64_t)strlen(name) + 1 ? low - first : -1;
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

static inline int64_t romco_row(const romco_table *t, int64_t key) {  /* -1: none; keys rise */
  int64_t low = 0, high = t->rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (romco_get(t, middle, 0) < (double)key) low = middle + 1; else high = middle;
  }
  return low < t->rows && romco_get(t, low, 0) == (double)key ? low : -1;
}

/* A part: units, functions, sums */

static inline double romco_clip(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static inline double romco_moderate(double mean, double variance) {
  return mean / sqrt(1 + 3.14159265358979323846 * (variance > 0 ? variance : 0) / 8);
}

static inline double romco_unit(const romco_table *unit, int64_t j, double x) {
  if (fabs(x) < 1e-150) return romco_get(unit, j, 3);
  return romco_get(unit, j, 2) * romco_clip(x - romco_get(unit, j, 0), romco_get(unit, j, 1));
}

static inline double romco_wave(const romco_model *m, const romco_table *wave, int64_t row, double order) {
  int64_t j = romco_index(wave, row, 0);
  double x = romco_get(&m->x, j, 0), kind = romco_get(wave, row, 1), rank, low, high;
  int k, below = 0, upto = 0;
  if (row < 0) return 1;                   /* there is no second factor */
  if (order < 0) return romco_clip(romco_get(&m->u, j, 0), 8);
  if (isnan(x) && kind == 1) x = 0;
  if (isnan(x) || (x == 0 && kind == 2)) return 0;
  for (k = 2; k < 66; k++) { below += romco_get(wave, row, k) < x; upto += romco_get(wave, row, k) <= x; }
  rank = 0.5 * (below + upto);             /* among 64 knots */
  if (upto == below && below > 0 && below < 64) {
    low = romco_get(wave, row, below + 1);
    high = romco_get(wave, row, below + 2);
    rank = below - 0.5 + (x - low) / (high - low);
  }
  if (order > 0) return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank / 64);
  k = rank >= 0 && rank < 64 ? (int)rank : 63;
  low = romco_get(&m->quantile, k, 0);
  return low + (rank - k) * (romco_get(&m->quantile, k + 1, 0) - low);
}

static inline void romco_add(romco_model *m, const romco_table *t, int64_t row, int64_t column, int64_t K, double u) {
  for (; column < t->columns; column++) {  /* the first row says what columns are */
    int64_t place = romco_index(t, 0, column);
    double value = romco_get(t, row, column);
    if (place < 0 || place >= 3 * K) continue;
    if (place >= 2 * K) m->z.at[place] = value;
    else m->z.at[place] += value * (place < K ? u : u * u);
  }
}

static inline void romco_add_feature(romco_model *m, const romco_part *p, int64_t task, int64_t j) {
  int64_t own = romco_row(&p->pair, task * (p->feature.rows - 1) + j);
  romco_add(m, &p->feature, 1 + j, 0, p->stack.rows, m->u.at[j]);
  if (own >= 0) romco_add(m, &p->pair, own, 1, p->stack.rows, m->u.at[j]);
}

static inline double romco_function(const romco_model *m, const romco_part *p, int64_t k) {
  const romco_table *f = &p->function;
  return romco_get(f, k, 4) * romco_wave(m, &p->wave, romco_index(f, k, 0), romco_get(f, k, 1))
         * romco_wave(m, &p->wave, romco_index(f, k, 2), romco_get(f, k, 3));
}

static inline void romco_inputs(romco_model *m, const romco_part *p, const romco_event *e) {  /* z */
  int64_t i, j, k, d = m->features, K = p->stack.rows;
  double *z = m->z.at, *u = m->u.at;
  for (k = 0; k < 3 * K; k++) z[k] = k < 2 * K ? 0 : 1;         /* sums, variances, factors */
  romco_add(m, &p->task, 1 + e->task, 0, K, 1);
  for (i = 0; i < e->n; i++)
    if ((j = e->feature[i]) >= 0 && j < d && !isnan(e->value[i])) {
      m->x.at[j] = e->value[i];
      u[j] = romco_unit(&p->unit, j, e->value[i]);
      romco_add_feature(m, p, e->task, j);
    }
  u[d] = 1;                                /* the constant; then come functions */
  romco_add_feature(m, p, e->task, d);
  for (i = 0; i < p->function.rows; i++) {
    m->f.at[i] = romco_function(m, p, i);
    u[d + 1 + i] = p->rotation.rows ? 0 : m->f.at[i];
    for (j = 0; p->rotation.rows && j <= i; j++)
      u[d + 1 + i] += romco_get(&p->rotation, i, 1 + j) * (m->f.at[j] - romco_get(&p->rotation, j, 0));
    romco_add_feature(m, p, e->task, d + 1 + i);
  }
  for (i = 0; i < p->covariance.rows; i++) {
    int64_t input = romco_index(&p->covariance, i, 0);
    double first = romco_get(&m->u, romco_index(&p->covariance, i, 1), 0);
    double second = romco_get(&m->u, romco_index(&p->covariance, i, 2), 0);
    if (input >= 0 && input < K) z[K + input] += romco_get(&p->covariance, i, 3) * first * second;
  }
  for (k = 0; k < K; k++) z[k] = z[2 * K + k] * romco_moderate(z[k], z[K + k]);
  for (i = 0; i < e->n; i++)
    if ((j = e->feature[i]) >= 0 && j < d) { u[j] = 0; m->x.at[j] = NAN; }
}

static inline double romco_part_margin(romco_model *m, const romco_part *p, const romco_event *e) {
  int64_t k, l, K = p->stack.rows;
  double mean = 0, variance = 0, *z = m->z.at;
  romco_inputs(m, p, e);
  for (k = 0; k < K; k++) {
    mean += romco_get(&p->stack, k, 0) * z[k];
    for (l = 0; l < K; l++) variance += romco_get(&p->stack, k, 1 + l) * z[k] * z[l];
  }
  return romco_moderate(mean, variance);
}

static inline double romco_margin(                              /* of two classes, or a number */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  romco_event e = {task, feature, value, n};
  return romco_part_margin(m, m->part, &e);
}

static inline double romco_probability(const romco_model *m, double margin) {
  return 1 / (1 + exp(-romco_get(&m->calibration, 0, 0) * margin));
}

/* More than two classes: pairs of classes, and a softmax with discriminants */

static inline double romco_odds(const romco_model *m, int64_t k, int64_t j) {
  return k > j ? m->odds.at[k * (k - 1) / 2 + j] : -m->odds.at[j * (j - 1) / 2 + k];
}

static inline void romco_couple(romco_model *m) {               /* scores by pairs */
  int64_t k, j, best = 0, K = m->classes;
  for (k = 1; k < K; k++) if (romco_odds(m, k, best) > 0) best = k;
  for (k = 0; k < K; k++) {
    double sum = 1;
    for (j = 0; j < K; j++)
      if (j != k && (j == best || k == best || (romco_odds(m, best, k) < 4 && romco_odds(m, best, j) < 4)))
        sum += exp(-romco_odds(m, k, j));
    m->score.at[k] = -log(sum);
  }
}

static inline int64_t romco_group(const romco_model *m, int64_t task, int64_t k) {  /* row of a task and class */
  int64_t own = romco_row(&m->group, task * m->classes + k);
  return own < 0 ? m->group.rows - m->classes + k : own;
}

/* Log-density of a class by the first matrix, which all share, or by its own. */
static inline double romco_log_density(const romco_model *m, int64_t row, int64_t matrix) {
  int64_t i, j, n = m->line.rows;
  double spread = romco_get(&m->group, row, 2), events = romco_get(&m->density, matrix, 0), far = 0;
  for (i = 0; i < n; i++) {
    double sum = 0;
    for (j = 0; j <= i; j++)
      sum += romco_get(&m->matrix, matrix * n + i, j)
             * (romco_get(&m->f, romco_index(&m->line, j, 0), 0) - romco_get(&m->group, row, 3 + j));
    far += sum * sum;
  }
  return -0.5 * (events + (double)n) * log1p(far / spread / events) - 0.5 * (double)n * log(spread)
         - romco_get(&m->density, matrix, 1);
}

static inline void romco_softmax(romco_model *m, const romco_part *p, int64_t task) {  /* scores by inputs z */
  int64_t c, k, K = m->classes;
  double *score = m->score.at, *log_density = score + K;
  for (k = 0; k < K; k++) score[k] = romco_get(&m->group, romco_group(m, task, k), 1);
  for (c = 0; c < 2 * K; c++) score[c % K] += romco_get(&p->stack, c, 0) * romco_clip(romco_get(&m->z, c, 0), 50);
  for (c = 0; c < 2; c++) {                /* linear and quadratic discriminants */
    double best = -INFINITY;
    for (k = 0; k < K; k++) {
      log_density[k] = romco_log_density(m, romco_group(m, task, k), c ? 1 + k : 0);
      if (log_density[k] > best) best = log_density[k];
    }
    for (k = 0; k < K; k++)
      score[k] += romco_get(&m->weight, 0, 2 + c) * (log_density[k] - best > -30 ? log_density[k] - best : -30);
  }
}

static inline void romco_probabilities(                         /* of all classes */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n, double *p) {
  romco_event e = {task, feature, value, n};
  int64_t k, K = m->classes, pairs = m->parts - 1;
  double best = -INFINITY, total = 0;
  if (K == 2) {
    p[1] = romco_probability(m, romco_part_margin(m, m->part, &e));
    p[0] = 1 - p[1];
    return;
  }
  for (k = 0; k < pairs; k++)
    m->odds.at[k] = romco_clip(romco_get(&m->calibration, k, 0) * romco_part_margin(m, m->part + k, &e), 500);
  if (pairs) romco_couple(m);
  for (k = 0; k < K; k++) p[k] = pairs ? romco_get(&m->weight, 0, 0) * m->score.at[k] : 0;
  romco_inputs(m, m->part + pairs, &e);
  romco_softmax(m, m->part + pairs, task);
  for (k = 0; k < K; k++) {
    p[k] += romco_get(&m->weight, 0, 1) * m->score.at[k];
    if (p[k] > best) best = p[k];
  }
  for (k = 0; k < K; k++) total += exp(p[k] - best);
  for (k = 0; k < K; k++) p[k] = exp(p[k] - best) / total;
}
#endif
