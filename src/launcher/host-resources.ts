import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { attempt } from '../attempt';
import { counted } from '../counted';

/** Where NVIDIA's driver lists the devices of this host, on Linux. */
const DRIVER = '/proc/driver/nvidia/gpus';

/**
 * Gives each rank of a host devices of its own: the next `gpusPerRank` ones. If there are too few, it continues with
 * the first, so that ranks share devices. TensorFlow then takes a device's memory as it needs it, not all at once. Sets
 * nothing if there are no devices. If the user has set CUDA_VISIBLE_DEVICES, it has the devices to distribute; the
 * other variable stays as the user has set it.
 *
 * @param gpusPerRank 0: none, the ranks compute on the CPU.
 */
export function gpuVariables(
  gpusPerRank: number,
  localRank: number,
  env: NodeJS.ProcessEnv,
  devices: readonly string[] = visibleDevices(env),
): Record<string, string> {
  if (gpusPerRank === 0) return { CUDA_VISIBLE_DEVICES: '-1' };
  if (devices.length === 0) return {};
  const own = Array.from({ length: Math.min(gpusPerRank, devices.length) }, (_, i) => {
    return devices[(localRank * gpusPerRank + i) % devices.length]!;
  });
  return {
    CUDA_VISIBLE_DEVICES: own.join(','),
    ...(env['TF_FORCE_GPU_ALLOW_GROWTH'] === undefined && { TF_FORCE_GPU_ALLOW_GROWTH: 'true' }),
  };
}

/** The devices that this process may use: numbers, or the names that CUDA_VISIBLE_DEVICES has. */
export function visibleDevices(env: NodeJS.ProcessEnv, driver: string = DRIVER): string[] {
  const given = env['CUDA_VISIBLE_DEVICES'];
  if (given !== undefined) {
    const names = given.split(',').map(name => name.trim());
    // CUDA itself stops at the first name that is not a device, such as −1.
    const end = names.findIndex(name => name === '' || name.startsWith('-'));
    return end === -1 ? names : names.slice(0, end);
  }
  return attempt(() => readdirSync(driver).map((_, i) => String(i))) ?? [];
}

/**
 * Divides the cores between the ranks of a host: TensorFlow would start as many threads in each rank as there are
 * cores, and ranks that wait for each other's threads are much slower. Variables that the user has set stay as they
 * are.
 */
export function threadVariables(
  ranks: number,
  env: NodeJS.ProcessEnv,
  cores: number = availableParallelism(),
): Record<string, string> {
  if (ranks === 1) return {};
  const threads = String(Math.max(1, Math.floor(cores / ranks)));
  const wanted = { TF_NUM_INTRAOP_THREADS: threads, TF_NUM_INTEROP_THREADS: '1', OMP_NUM_THREADS: threads };
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => env[name] === undefined));
}

/**
 * Options of Node: V8 collects garbage in the thread of the program, if a rank has less than two cores. Otherwise it
 * would use up to four more threads for that in each rank, which take the cores from the other ranks. An option of the
 * user comes later, and wins.
 */
export function garbageOptions(ranks: number, cores: number = availableParallelism()): string[] {
  return ranks > 1 && cores < 2 * ranks ? ['--single-threaded-gc'] : [];
}

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

/** More ranks than this for each core are probably a mistake. Fewer are useful to try something out. */
const MOST_PER_CORE = 4;

/** A warning, if a host has far fewer cores than ranks. */
export function crowdWarning(ranks: number, host = 'this host', cores = availableParallelism()): string | undefined {
  if (ranks <= MOST_PER_CORE * cores) return undefined;
  return `${ranks} ranks share the ${counted(cores, 'core')} of ${host}: they will be slow, and each needs memory for the whole model. As many ranks as cores are the fastest.`;
}
