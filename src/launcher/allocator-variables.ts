/**
 * Makes glibc keep the memory that a rank frees instead of returning it to the system: up to half a gigabyte at the end
 * of the heap, and all that is below memory in use. Gradients are made and freed in each step, and the first touch of
 * new memory is slow. Variables that the user has set stay as they are. Other C libraries ignore these.
 */
export function allocatorVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  const mebibyte = 1024 * 1024;
  const wanted = {
    // No block gets a mapping of its own, which would be unmapped when it is freed. A threshold would not do: glibc
    // takes at most 32 MiB, and the gradient of one variable may be larger. If the user sets a threshold, larger blocks
    // are mapped.
    ...(env['MALLOC_MMAP_THRESHOLD_'] === undefined && { MALLOC_MMAP_MAX_: '0' }),
    // How much free memory is kept at the end of the heap.
    MALLOC_TRIM_THRESHOLD_: String(512 * mebibyte),
    MALLOC_TOP_PAD_: String(16 * mebibyte),
  };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}
