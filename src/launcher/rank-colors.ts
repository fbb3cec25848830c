import { createColors } from 'picocolors';

// Without red, which readers take for an error.
const PALETTE = ['cyan', 'yellow', 'green', 'magenta', 'blue'] as const;

/** `[name] `, in the rank's colour if the stream shows any. */
export function rankPrefix(name: string, rank: number, stream: NodeJS.WritableStream, env: NodeJS.ProcessEnv): string {
  const color = createColors(showsColors(stream, env))[PALETTE[rank % PALETTE.length]!];
  return `${color(`[${name}]`)} `;
}

/**
 * The variable that makes ranks colour their output, although they write to a pipe, if it is shown on a terminal. Empty
 * if the user has already decided.
 */
export function forcedColors(stream: NodeJS.WritableStream, env: NodeJS.ProcessEnv): { FORCE_COLOR?: string } {
  if (env['FORCE_COLOR'] !== undefined || !showsColors(stream, env)) return {};
  const depth = 'getColorDepth' in stream ? (stream as NodeJS.WriteStream).getColorDepth(env) : 4;
  return { FORCE_COLOR: depth >= 24 ? '3' : depth >= 8 ? '2' : '1' };
}

/** Colours are for terminals, unless the user has turned them off (https://no-color.org). */
function showsColors(stream: NodeJS.WritableStream, env: NodeJS.ProcessEnv): boolean {
  return 'isTTY' in stream && stream.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
}
