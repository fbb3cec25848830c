/* Dense all-reduce by Open MPI, for scripts/compare-peers.js: ./open-mpi {ITERATIONS ELEMENTS}..., one JSON line a size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 3 };

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i + 1 < argc; i += 2) {
    int iterations = atoi(argv[i]), elements = atoi(argv[i + 1]);
    double *times = malloc(iterations * sizeof *times);
    float *array = malloc(elements * sizeof *array);
    for (int iteration = 0; iteration < WARM_UP + iterations; iteration++) {
      for (int e = 0; e < elements; e++) array[e] = 1;
      MPI_Barrier(MPI_COMM_WORLD);
      double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, array, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (iteration >= WARM_UP) times[iteration - WARM_UP] = MPI_Wtime() - start;
    }
    qsort(times, iterations, sizeof *times, ascending);
    if (rank == 0) printf("{\"elements\": %d, \"p50Us\": %.1f}\n", elements, times[iterations / 2] * 1e6);
    free(array), free(times);
  }
  MPI_Finalize();
}
