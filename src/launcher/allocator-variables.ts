/**
 * Has glibc keep the memory that a rank frees, up to half a gigabyte at the end of the heap, and all below what is in
 * use, instead of giving it back to the system: gradients are made and freed at each step, and memory that is new to a
 * process is slow to touch the first time. Variables that the user has set stay as they are; other C libraries pass
 * these over.
 */
export function allocatorVariables(env: NodeJS.ProcessEnv): Record<string, string> {
  const mebibyte = 1024 * 1024;
  const wanted = {
    // No block is mapped by itself, to be unmapped when freed, however large: the highest threshold that glibc takes is
    // 32 MiB, and the gradient of one variable may be larger. If the user sets a threshold, larger blocks are mapped.
    ...(env['MALLOC_MMAP_THRESHOLD_'] === undefined && { MALLOC_MMAP_MAX_: '0' }),
    // Free memory at the end of the heap that is kept.
    MALLOC_TRIM_THRESHOLD_: String(512 * mebibyte),
    MALLOC_TOP_PAD_: String(16 * mebibyte),
  };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}
