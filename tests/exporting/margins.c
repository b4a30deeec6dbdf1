/* Reads events, one a line: task, then name and value of each feature, apart by tabs.
   Prints the margin, if there is one, and the probabilities of all classes. */
#include "romco.h"

int main(int n, char **text) {
  static char line[1 << 16];
  static double chance[1000];
  romco_model *m = n > 1 ? romco_open(text[1]) : NULL;
  if (!m) return 2;
  while (fgets(line, sizeof line, stdin)) {
    int64_t feature[1000], count = 0, task, k;
    double value[1000];
    char *cell = strtok(line, "\t\n");
    task = romco_task(m, cell);
    while ((cell = strtok(NULL, "\t\n"))) {
      feature[count] = romco_feature(m, cell);
      value[count++] = strtod(strtok(NULL, "\t\n"), NULL);
    }
    if (romco_classes(m) < 3) printf("%.17g ", romco_margin(m, task, feature, value, count));
    if (romco_classes(m) > 1) romco_probabilities(m, task, feature, value, count, chance);
    for (k = 0; k < romco_classes(m); k++) printf("%.17g ", chance[k]);
    printf("\n");
  }
  romco_close(m);
  return 0;
}
