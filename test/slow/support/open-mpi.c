// The collectives of Open MPI, for open-mpi.test.ts. The folder that is the argument has a file cases.txt, with a line
// for each case: collective, type, operation, count and root. Rank r reads CASE.r.in and writes CASE.r.out. The count is
// of the elements of what a rank passes; for a scatter, of what it gets. A collective `group.NAME` is called in the
// groups that `root` alone and the others form, each with its last rank as the root.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Datatype type_of(const char *name) {
  if (!strcmp(name, "float32")) return MPI_FLOAT;
  if (!strcmp(name, "float64")) return MPI_DOUBLE;
  if (!strcmp(name, "int32")) return MPI_INT32_T;
  if (!strcmp(name, "int64")) return MPI_INT64_T;
  if (!strcmp(name, "uint64")) return MPI_UINT64_T;
  return MPI_UINT8_T;
}

static MPI_Op operation_of(const char *name) {
  if (!strcmp(name, "product")) return MPI_PROD;
  if (!strcmp(name, "min")) return MPI_MIN;
  return strcmp(name, "max") ? MPI_SUM : MPI_MAX;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int whole_rank, whole_size;
  MPI_Comm_rank(MPI_COMM_WORLD, &whole_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &whole_size);
  char path[4096], line_name[32], type_name[32], op_name[32];
  snprintf(path, sizeof path, "%s/cases.txt", argv[1]);
  FILE *cases = fopen(path, "r");
  int count, root;
  for (int i = 0; fscanf(cases, "%31s %31s %31s %d %d", line_name, type_name, op_name, &count, &root) == 5; i++) {
    MPI_Datatype type = type_of(type_name);
    MPI_Op op = operation_of(op_name);
    int bytes;
    MPI_Type_size(type, &bytes);
    size_t room = (size_t)count * whole_size;
    char *in = calloc(room + 1, bytes), *out = calloc(room + 1, bytes);
    snprintf(path, sizeof path, "%s/%d.%d.in", argv[1], i, whole_rank);
    FILE *file = fopen(path, "r");
    if (fread(in, 1, room * bytes, file) == 0 && count > 0) MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(file);
    MPI_Comm comm;
    const int in_group = !strncmp(line_name, "group.", 6);
    const char *name = in_group ? line_name + 6 : line_name;
    MPI_Comm_split(MPI_COMM_WORLD, in_group && whole_rank == root, whole_rank, &comm);
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (in_group) root = size - 1;
    int got = count; // elements of the result
    if (!strcmp(name, "allReduce")) MPI_Allreduce(in, out, count, type, op, comm);
    if (!strcmp(name, "reduce")) {
      MPI_Reduce(in, out, count, type, op, root, comm);
      if (rank != root) got = 0;
    }
    if (!strcmp(name, "reduceScatter")) {
      int *counts = malloc(size * sizeof *counts);
      for (int r = 0; r < size; r++) counts[r] = (r + 1) * count / size - r * count / size;
      MPI_Reduce_scatter(in, out, counts, type, op, comm);
      got = counts[rank];
      free(counts);
    }
    if (!strcmp(name, "allGather")) {
      MPI_Allgather(in, count, type, out, count, type, comm);
      got = count * size;
    }
    if (!strcmp(name, "gather")) {
      MPI_Gather(in, count, type, out, count, type, root, comm);
      got = rank == root ? count * size : 0;
    }
    if (!strcmp(name, "scatter")) MPI_Scatter(in, count, type, out, count, type, root, comm);
    if (!strcmp(name, "allToAll")) MPI_Alltoall(in, count / size, type, out, count / size, type, comm);
    if (!strcmp(name, "broadcast")) {
      memcpy(out, in, (size_t)count * bytes);
      MPI_Bcast(out, count, type, root, comm);
    }
    if (!strcmp(name, "sendReceive")) {
      MPI_Sendrecv(in, count, type, (rank + 1) % size, 0, out, count, type, (rank + size - 1) % size, 0, comm,
                   MPI_STATUS_IGNORE);
    }
    if (!strcmp(name, "message")) { // to the rank `root` places further
      MPI_Sendrecv(in, count, type, (rank + root) % size, i, out, count, type, (rank + size - root) % size, i,
                   comm, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
    snprintf(path, sizeof path, "%s/%d.%d.out", argv[1], i, whole_rank);
    file = fopen(path, "w");
    fwrite(out, bytes, got, file);
    fclose(file);
    free(in);
    free(out);
  }
  MPI_Finalize();
  return 0;
}
