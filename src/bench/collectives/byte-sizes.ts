import { invalidArgument } from '../../errors';

const UNITS = ['', 'K', 'M', 'G'] as const;

/**
 * A size in the format of nccl-tests: `4`, `64K`, `1M`, `100MB`, with powers of 1024.
 *
 * @throws ERR_INVALID_ARGUMENT
 */
export function parseSize(text: string, option: string): number {
  const parts = /^(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?$/i.exec(text.trim());
  const bytes = parts === null ? NaN : Number(parts[1]) * 1024 ** UNITS.indexOf(parts[2]!.toUpperCase() as 'K');
  if (Number.isSafeInteger(bytes) && bytes >= 1 && bytes <= 2 ** 32) return bytes;
  throw invalidArgument(`--${option} is '${text}'; it must be a size from 1 to 4G, such as 4, 64K, 1M or 100MB.`);
}

/** Sizes from the least to the most. Each is the one before times a factor. */
export function sizesBetween(least: number, most: number, factor: number): number[] {
  const sizes: number[] = [];
  for (let size = least; size <= most; size = Math.max(Math.floor(size * factor), size + 1)) sizes.push(size);
  return sizes;
}

/** A size in words: `64 KiB`, `1.5 MiB`. */
export function sizeText(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = Number((bytes / 1024 ** unit).toFixed(2));
  return unit === 0 ? `${value} B` : `${value} ${UNITS[unit]}iB`;
}
