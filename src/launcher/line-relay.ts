import type { Readable } from 'node:stream';
import { LineSplitter } from './line-splitter';

/**
 * Delivers the lines of what a rank writes, no faster than they are taken. Resolves when the stream has ended, or is
 * destroyed, and all its lines were delivered. Never rejects.
 */
export async function relayLines(source: Readable, deliver: (lines: string[]) => Promise<void>): Promise<void> {
  const splitter = new LineSplitter();
  try {
    for await (const chunk of source) await deliver(splitter.push(chunk as Buffer));
  } catch {
    // Given up, or broken: nothing more will come.
  }
  await deliver(splitter.end());
}
