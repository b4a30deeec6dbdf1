/* Changes a data file at random, n times: opens it and, if it is taken, predicts.

     fuzz FILE COPY N SEED [crafted]

   Without "crafted" each changed file must be refused. With it, checksums are made right again, and files may
   be taken; sanitizers see what is wrong. Prints how many were taken. */
#include "romco.h"

static uint64_t state;

static uint64_t draw(uint64_t n) {         /* xorshift */
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return state % n;
}

static size_t put_checksum(unsigned char *data, size_t size) {
  uint32_t a = 1, b = 0;
  size_t k;
  for (k = 0; k + 4 < size; k++) { a = (a + data[k]) % 65521; b = (b + a) % 65521; }
  a |= b << 16;
  memcpy(data + size - 4, &a, 4);
  return size;
}

static void change_number(unsigned char *data, const size_t *table, size_t tables) {
  static const double odd[] = {-1.0, 0.0, 0.5, 1.0, 2.0, 1e9, 2147483647.0, 2147483648.0, 1e300, -1e300, NAN, INFINITY, -INFINITY};
  size_t at = table[draw(tables)];
  uint64_t shape[2];
  double x;
  memcpy(shape, data + at, 16);
  if (shape[0] * shape[1] == 0) return;
  at += 16 + 8 * draw(shape[0] * shape[1]);
  memcpy(&x, data + at, 8);
  if (draw(2)) x += (double)draw(7) - 3.0; else x = odd[draw(sizeof odd / sizeof *odd)];
  memcpy(data + at, &x, 8);
}

static void change_shape(unsigned char *data, const size_t *table, size_t tables) {
  static const uint64_t odd[] = {0, 1, 2, 3, 64, 66, 1u << 30, 1ull << 31, 1ull << 32, 1ull << 61, ~0ull};
  size_t at = table[draw(tables)] + 8 * draw(2);
  uint64_t x;
  memcpy(&x, data + at, 8);
  if (draw(2)) x += draw(7) - 3; else x = odd[draw(sizeof odd / sizeof *odd)];
  memcpy(data + at, &x, 8);
}

static size_t change(unsigned char *data, size_t size, const size_t *table, size_t tables) {
  uint64_t kind = draw(10), times = 1 + draw(3);
  if (kind == 0) return 20 + draw(size - 20);
  for (; times > 0; times--) {
    if (kind < 3) data[16 + draw(size - 20)] ^= (unsigned char)(1 << draw(8));
    else if (kind < 5) change_shape(data, table, tables);
    else change_number(data, table, tables);
  }
  return size;
}

static void predict(romco_model *m) {
  double value[8], *chance = (double *)calloc((size_t)m->classes + 1, sizeof(double));
  int64_t feature[8], k, n = m->features < 8 ? m->features : 8;
  for (k = 0; k < n; k++) {
    feature[k] = m->features - 1 - k;
    value[k] = (double)draw(5) - 1.0;
    if (draw(6) == 0) value[k] = NAN;
  }
  romco_margin(m, romco_task(m, "user 1"), feature, value, n);
  if (m->classes > 1) romco_probabilities(m, (int64_t)draw((uint64_t)m->tasks + 1), feature, value, n, chance);
  for (k = 0; k < m->classes; k++) if (strlen(romco_class(m, k)) > 1000000) abort();
  romco_feature(m, "age");
  free(chance);
}

int main(int count, char **given) {
  static size_t table[4096];
  size_t size, at, tables = 0, taken = 0;
  unsigned char *sound, *data;
  uint64_t shape[2];
  long n = atol(given[3]);
  romco_model *m = romco_open(given[1]);
  FILE *file = fopen(given[1], "rb");
  if (!m) return 2;
  predict(m);
  romco_close(m);
  fseek(file, 0, SEEK_END);
  size = (size_t)ftell(file);
  rewind(file);
  sound = (unsigned char *)malloc(size);
  data = (unsigned char *)malloc(size);
  if (fread(sound, 1, size, file) != size) return 2;
  fclose(file);
  for (at = 16; at + 20 <= size && tables < 4096; at += 16 + 8 * shape[0] * shape[1]) {
    table[tables++] = at;
    memcpy(shape, sound + at, 16);
  }
  for (state = (uint64_t)atol(given[4]) + 88172645463325252u; n > 0; n--) {
    size_t bytes;
    memcpy(data, sound, size);
    bytes = change(data, size, table, tables);
    if (count > 5) put_checksum(data, bytes);
    else if (bytes == size && memcmp(data, sound, size) == 0) continue;
    file = fopen(given[2], "wb");
    fwrite(data, 1, bytes, file);
    fclose(file);
    m = romco_open(given[2]);
    if (m && count <= 5) return 3;
    if (m) { predict(m); taken++; }
    romco_close(m);
  }
  printf("%lu\n", (unsigned long)taken);
  free(sound);
  free(data);
  return 0;
}
