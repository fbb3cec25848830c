import { readdirSync } from 'node:fs';

/** Which devices a rank sees. */
export interface GpuPlan {
  /** 0: none, the ranks compute on the CPU. */
  readonly gpusPerRank: number;
}

/** Where NVIDIA's driver lists the devices of this host, on Linux. */
const DRIVER = '/proc/driver/nvidia/gpus';

/**
 * Gives each rank of a host devices of its own: the next `gpusPerRank` ones. If there are too few, it continues with
 * the first, so that ranks share devices. TensorFlow then takes a device's memory as it needs it, not all at once. Sets
 * nothing if there are no devices. If the user has set CUDA_VISIBLE_DEVICES, it has the devices to distribute; the
 * other variable stays as the user has set it.
 */
export function gpuVariables(
  { gpusPerRank }: GpuPlan,
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
  try {
    return readdirSync(driver).map((_, i) => String(i));
  } catch {
    return [];
  }
}
