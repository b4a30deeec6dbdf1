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

enum { ROMCO_STACK, ROMCO_WAVE, ROMCO_FUNCTION, ROMCO_ROTATION, ROMCO_UNIT, ROMCO_FEATURE, ROMCO_TASK, ROMCO_PAIR,
       ROMCO_COVARIANCE, ROMCO_TABLES };
typedef struct { romco_table t[ROMCO_TABLES]; } romco_part;

typedef struct {
  romco_table text, name, quantile, calibration, weight, line, matrix, density, group;
  int64_t features, tasks, classes, parts;
  char *data, *next;
  size_t left;                             /* bytes that are not read yet, from next on */
  romco_part *part;
  romco_table x, u, f, z;                  /* of one event: values, units, functions, inputs */
  double *odds, *score;                    /* of one event: log-odds of pairs, scores of classes */
} romco_model;

/* A damaged file cannot do harm: a number outside of a table is 0. */
static inline double romco_get(const romco_table *t, double row, double column) {
  int inside = row >= 0.0 && row < (double)t->rows && column >= 0.0 && column < (double)t->columns;
  return inside ? t->at[(int64_t)row * t->columns + (int64_t)column] : 0.0;
}

/* Reading */

static inline int romco_next(romco_model *m, romco_table *t) {
  uint64_t shape[2];
  if (m->left < sizeof shape) return 0;
  memcpy(shape, m->next, sizeof shape);
  m->left -= sizeof shape;
  m->next += sizeof shape;
  if (shape[0] >> 31 || shape[1] >> 31 || shape[0] * shape[1] > m->left / 8 || (shape[0] && !shape[1])) return 0;
  t->at = (double *)(void *)m->next;
  t->rows = (int64_t)shape[0];
  t->columns = (int64_t)shape[1];
  m->left -= 8 * shape[0] * shape[1];
  m->next += 8 * shape[0] * shape[1];
  return 1;
}

static inline int romco_room(romco_table *t, int64_t rows) {
  t->rows = rows;
  t->columns = 1;
  t->at = (double *)calloc((size_t)rows + 1, sizeof(double));
  return t->at != NULL;
}

static inline int romco_checked(const romco_model *m, uint32_t checksum) {  /* Adler-32 */
  uint32_t a = 1, b = 0;
  const char *byte;
  for (byte = m->data; byte < m->next + m->left; byte++) {
    a = (a + (unsigned char)*byte) % 65521;
    b = (b + a) % 65521;
  }
  return checksum == (b << 16 | a);
}

static inline int romco_read(romco_model *m) {                  /* 0: damaged, or no memory */
  int64_t k, K, f = 0, z = 0;
  int t;
  uint32_t checksum;
  if (m->left < 20 || memcmp(m->data, "romcoexp\5\0\0\0\0\0\0", 16) != 0) return 0;
  memcpy(&checksum, m->data + m->left - 4, 4);
  m->next = m->data + 16;
  m->left -= 20;
  if (!romco_checked(m, checksum) || !romco_next(m, &m->text) || !romco_next(m, &m->name)
      || !romco_next(m, &m->quantile) || !romco_next(m, &m->calibration)) return 0;
  m->parts = m->calibration.rows;
  m->part = (romco_part *)calloc((size_t)m->parts + 1, sizeof(romco_part));
  for (k = 0; m->part && k < m->parts; k++)
    for (t = 0; t < ROMCO_TABLES; t++)
      if (!romco_next(m, m->part[k].t + t)) return 0;
  if (!m->part || m->parts == 0) return 0;
  for (k = 0; k < m->parts; k++) {
    const romco_table *of = m->part[k].t;
    if (of[ROMCO_FUNCTION].rows > f) f = of[ROMCO_FUNCTION].rows;
    if (of[ROMCO_STACK].rows > z) z = of[ROMCO_STACK].rows;
  }
  m->features = m->part->t[ROMCO_UNIT].rows;
  m->tasks = m->part->t[ROMCO_TASK].rows - 2;
  m->classes = K = m->name.rows - m->features - m->tasks - 2;
  if (m->tasks < 0 || K < 0 || (m->parts > 1 && (K < 3 || m->parts != 1 + K * (K - 1) / 2))) return 0;
  if (m->text.rows < 1 || m->text.columns != 1 || ((char *)m->text.at)[8 * m->text.rows - 1]) return 0;
  if (K > 2 && !(romco_next(m, &m->weight) && romco_next(m, &m->line) && romco_next(m, &m->matrix)
                 && romco_next(m, &m->density) && romco_next(m, &m->group))) return 0;
  if (!romco_room(&m->x, m->features) || !romco_room(&m->u, m->features + 1 + f) || !romco_room(&m->f, f)
      || !romco_room(&m->z, 3 * z)) return 0;
  for (k = 0; k < m->features; k++) m->x.at[k] = NAN;
  m->odds = (double *)calloc((size_t)m->parts, sizeof(double));
  m->score = (double *)calloc(3 * (size_t)K + 1, sizeof(double));
  return m->odds && m->score;
}

static inline void romco_close(romco_model *m) {
  if (!m) return;
  free(m->data); free(m->part); free(m->odds); free(m->score);
  free(m->x.at); free(m->u.at); free(m->f.at); free(m->z.at); free(m);
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
  double at = romco_get(&m->name, (double)k, 0.0);
  return (const char *)m->text.at + (at > 0.0 && at < 8.0 * (double)m->text.rows ? (int64_t)at : 0);
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

static inline int64_t romco_row(const romco_table *t, double key) {  /* -1: none; keys rise */
  int64_t low = 0, high = t->rows;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (romco_get(t, (double)middle, 0.0) < key) low = middle + 1; else high = middle;
  }
  return low < t->rows && romco_get(t, (double)low, 0.0) == key ? low : -1;
}

/* A part: units, functions, sums */

static inline double romco_clip(double x, double limit) { return x > limit ? limit : x < -limit ? -limit : x; }

static inline double romco_moderate(double mean, double variance) {
  return mean / sqrt(1.0 + 3.14159265358979323846 * (variance > 0.0 ? variance : 0.0) / 8.0);
}

static inline double romco_unit(const romco_table *unit, double j, double x) {
  if (fabs(x) < 1e-150) return romco_get(unit, j, 3.0);
  return romco_get(unit, j, 2.0) * romco_clip(x - romco_get(unit, j, 0.0), romco_get(unit, j, 1.0));
}

static inline double romco_wave(const romco_model *m, const romco_table *wave, double c, double order) {
  double kind = romco_get(wave, c, 1.0), x = romco_get(&m->x, romco_get(wave, c, 0.0), 0.0), rank, step, low;
  int k, below = 0, upto = 0;
  if (c < 0.0) return 1.0;                 /* there is no second factor */
  if (order < 0.0) return romco_clip(romco_get(&m->u, romco_get(wave, c, 0.0), 0.0), 8.0);
  if (isnan(x) && kind == 1.0) x = 0.0;
  if (isnan(x) || (x == 0.0 && kind == 2.0)) return 0.0;
  for (k = 2; k < 66; k++) { below += romco_get(wave, c, k) < x; upto += romco_get(wave, c, k) <= x; }
  rank = 0.5 * (below + upto) / 64.0;
  if (upto == below && below > 0 && below < 64) {
    low = romco_get(wave, c, below + 1);
    rank = (below - 0.5 + (x - low) / (romco_get(wave, c, below + 2) - low)) / 64.0;
  }
  if (order > 0.0) return 1.41421356237309504880 * cos(3.14159265358979323846 * order * rank);
  step = rank < 1.0 ? floor(64.0 * rank) : 63.0;
  low = romco_get(&m->quantile, step, 0.0);
  return low + (64.0 * rank - step) * (romco_get(&m->quantile, step + 1.0, 0.0) - low);
}

static inline void romco_add(romco_model *m, const romco_part *p, int table, int64_t row, double u) {
  const romco_table *t = p->t + table;
  double inputs = (double)p->t[ROMCO_STACK].rows;
  int64_t k;
  for (k = table == ROMCO_PAIR; k < t->columns; k++) {          /* the first row says what columns are */
    double place = romco_get(t, 0.0, (double)k), value = romco_get(t, (double)row, (double)k);
    if (!(place >= 0.0 && place < 3.0 * inputs)) continue;
    if (place >= 2.0 * inputs) m->z.at[(int64_t)place] = value;
    else m->z.at[(int64_t)place] += value * (place < inputs ? u : u * u);
  }
}

static inline void romco_add_feature(romco_model *m, const romco_part *p, int64_t task, int64_t feature) {
  int64_t own = romco_row(p->t + ROMCO_PAIR, (double)(task * (p->t[ROMCO_FEATURE].rows - 1) + feature));
  romco_add(m, p, ROMCO_FEATURE, 1 + feature, m->u.at[feature]);
  if (own >= 0) romco_add(m, p, ROMCO_PAIR, own, m->u.at[feature]);
}

static inline void romco_inputs(                                /* z of a part */
    romco_model *m, const romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  const romco_table *function = p->t + ROMCO_FUNCTION, *wave = p->t + ROMCO_WAVE, *turn = p->t + ROMCO_ROTATION;
  const romco_table *covariance = p->t + ROMCO_COVARIANCE;
  int64_t e, j, d = m->features, K = p->t[ROMCO_STACK].rows;
  double *z = m->z.at, *u = m->u.at;
  for (e = 0; e < 3 * K; e++) z[e] = e < 2 * K ? 0.0 : 1.0;     /* sums, variances, factors */
  romco_add(m, p, ROMCO_TASK, 1 + task, 1.0);
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && feature[e] < d && !isnan(value[e])) {
      m->x.at[feature[e]] = value[e];
      u[feature[e]] = romco_unit(p->t + ROMCO_UNIT, (double)feature[e], value[e]);
      romco_add_feature(m, p, task, feature[e]);
    }
  u[d] = 1.0;                              /* the constant; then come functions */
  romco_add_feature(m, p, task, d);
  for (e = 0; e < function->rows; e++) {
    double r = (double)e, *to = u + d + 1 + e;
    m->f.at[e] = romco_get(function, r, 4.0) * romco_wave(m, wave, romco_get(function, r, 0.0), romco_get(function, r, 1.0))
                 * romco_wave(m, wave, romco_get(function, r, 2.0), romco_get(function, r, 3.0));
    *to = turn->rows ? 0.0 : m->f.at[e];
    for (j = 0; turn->rows && j <= e; j++)
      *to += romco_get(turn, r, (double)(1 + j)) * (m->f.at[j] - romco_get(turn, (double)j, 0.0));
    romco_add_feature(m, p, task, d + 1 + e);
  }
  for (e = 0; e < covariance->rows; e++) {
    double r = (double)e, k = romco_get(covariance, r, 0.0);
    double first = romco_get(&m->u, romco_get(covariance, r, 1.0), 0.0);
    double second = romco_get(&m->u, romco_get(covariance, r, 2.0), 0.0);
    if (k >= 0.0 && k < (double)K) z[K + (int64_t)k] += romco_get(covariance, r, 3.0) * first * second;
  }
  for (e = 0; e < K; e++) z[e] = z[2 * K + e] * romco_moderate(z[e], z[K + e]);
  for (e = 0; e < n; e++)
    if (feature[e] >= 0 && feature[e] < d) { u[feature[e]] = 0.0; m->x.at[feature[e]] = NAN; }
}

static inline double romco_part_margin(
    romco_model *m, const romco_part *p, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  const romco_table *stack = p->t + ROMCO_STACK;
  int64_t k, l;
  double mean = 0.0, variance = 0.0;
  romco_inputs(m, p, task, feature, value, n);
  for (k = 0; k < stack->rows; k++) {
    mean += romco_get(stack, (double)k, 0.0) * m->z.at[k];
    for (l = 0; l < stack->rows; l++) variance += romco_get(stack, (double)k, (double)(1 + l)) * m->z.at[k] * m->z.at[l];
  }
  return romco_moderate(mean, variance);
}

static inline double romco_margin(                              /* of two classes, or a number */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n) {
  return romco_part_margin(m, m->part, task, feature, value, n);
}

static inline double romco_probability(const romco_model *m, double margin) {
  return 1.0 / (1.0 + exp(-romco_get(&m->calibration, 0.0, 0.0) * margin));
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

static inline void romco_discriminate(const romco_model *m, int64_t task, int64_t kind, double *score) {
  int64_t i, j, k, n = m->line.rows, K = m->classes;
  double best = -INFINITY;
  for (k = 0; k < K; k++) {
    int64_t own = romco_row(&m->group, (double)(task * K + k)), at = kind ? 1 + k : 0;
    double row = (double)(own < 0 ? m->group.rows - K + k : own), spread = romco_get(&m->group, row, 2.0);
    double events = romco_get(&m->density, (double)at, 0.0), far = 0.0, sum;
    for (i = 0; i < n; i++) {
      for (sum = 0.0, j = 0; j <= i; j++)
        sum += romco_get(&m->matrix, (double)(at * n + i), (double)j)
               * (romco_get(&m->f, romco_get(&m->line, (double)j, 0.0), 0.0) - romco_get(&m->group, row, (double)(3 + j)));
      far += sum * sum;
    }
    score[K + k] = romco_get(&m->group, row, 1.0);
    score[k] = -0.5 * (events + (double)n) * log1p(far / spread / events) - 0.5 * (double)n * log(spread)
               - romco_get(&m->density, (double)at, 1.0);
    if (score[k] > best) best = score[k];
  }
  for (k = 0; k < K; k++) score[k] = score[k] - best > -30.0 ? score[k] - best : -30.0;
}

static inline void romco_softmax(const romco_model *m, const romco_part *p, int64_t task, double *score) {
  int64_t c, k, K = m->classes;
  double *part = score + K;
  memset(score, 0, (size_t)K * sizeof *score);
  for (c = 0; c < 2 * K; c++)
    score[c % K] += romco_get(p->t + ROMCO_STACK, (double)c, 0.0) * romco_clip(romco_get(&m->z, (double)c, 0.0), 50.0);
  for (c = 0; c < 2; c++) {
    romco_discriminate(m, task, c, part);
    for (k = 0; k < K; k++) score[k] += romco_get(&m->weight, 0.0, (double)(2 + c)) * part[k];
  }
  for (k = 0; k < K; k++) score[k] += part[K + k];
}

static inline void romco_probabilities(                         /* of all classes */
    romco_model *m, int64_t task, const int64_t *feature, const double *value, int64_t n, double *p) {
  int64_t k, K = m->classes, pairs = m->parts - 1;
  double factor;
  if (K == 2) {
    p[1] = romco_probability(m, romco_margin(m, task, feature, value, n));
    p[0] = 1.0 - p[1];
    return;
  }
  for (k = 0; k < K; k++) p[k] = 0.0;
  for (k = 0; k < pairs; k++) {
    factor = romco_get(&m->calibration, (double)k, 0.0);
    m->odds[k] = romco_clip(factor * romco_part_margin(m, m->part + k, task, feature, value, n), 500.0);
  }
  if (pairs) {
    romco_couple(m, m->score);
    for (k = 0; k < K; k++) p[k] += romco_get(&m->weight, 0.0, 0.0) * m->score[k];
  }
  romco_inputs(m, m->part + pairs, task, feature, value, n);
  romco_softmax(m, m->part + pairs, task, m->score);
  for (k = 0; k < K; k++) p[k] += romco_get(&m->weight, 0.0, 1.0) * m->score[k];
  romco_normalise(p, K);
  for (k = 0; k < K; k++) p[k] = exp(p[k]);
}
#endif
