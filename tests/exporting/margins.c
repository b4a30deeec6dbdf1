/* Reads events, one a line: task, then name and value of each feature, apart by tabs. */
#include "romco.h"

int main(int n, char **text) {
  static char line[1 << 16];
  romco_model *m = n > 1 ? romco_open(text[1]) : NULL;
  if (!m) return 2;
  while (fgets(line, sizeof line, stdin)) {
    int64_t feature[1000], count = 0, task;
    double value[1000], margin;
    char *cell = strtok(line, "\t\n");
    task = romco_task(m, cell);
    while ((cell = strtok(NULL, "\t\n"))) {
      feature[count] = romco_feature(m, cell);
      value[count++] = strtod(strtok(NULL, "\t\n"), NULL);
    }
    margin = romco_margin(m, task, feature, value, count);
    printf("%.17g %.17g\n", margin, romco_probability(m, margin));
  }
  romco_close(m);
  return 0;
}
