import fs from 'node:fs/promises';
import path from 'node:path';

/** The calls of the file system, in order. `dir/` stands for a folder. */
export type OperationLog = string[];

type Interference = (operation: string, number: number) => 'do' | 'fail' | 'half';

const WATCHED = ['mkdir', 'rename', 'link', 'rm', 'unlink', 'rmdir'] as const;

/**
 * Watches all changes to the file system that this process makes by `node:fs/promises`, and may let them fail. A write
 * may also be done half before it fails. A sync is only noted: it takes long, and no test can see what it does.
 * {@link jest.restoreAllMocks} ends it.
 */
export function watchFileOperations(interfere: Interference = () => 'do'): OperationLog {
  const log: OperationLog = [];
  const step = (operation: string): 'do' | 'half' => {
    const what = interfere(operation, log.length);
    log.push(operation);
    if (what === 'fail') throw Object.assign(new Error(`ENOSPC: no space left, ${operation}`), { code: 'ENOSPC' });
    return what;
  };
  for (const name of WATCHED) {
    const original = fs[name] as (...args: unknown[]) => Promise<unknown>;
    jest.spyOn(fs, name).mockImplementation((async (...args: unknown[]) => {
      step(`${name} ${path.basename(String(args[0]))}`);
      return original.apply(fs, args);
    }) as never);
  }
  const open = fs.open.bind(fs);
  jest.spyOn(fs, 'open').mockImplementation(async (file, ...args) => {
    const name = path.basename(String(file));
    if (args[0] === 'wx') step(`open ${name}`);
    const handle = await open(file, ...args);
    const write = handle.write.bind(handle) as (bytes: Uint8Array, offset: number) => Promise<unknown>;
    handle.sync = async () => void step(`sync ${name}`);
    handle.write = (async (bytes: Uint8Array, offset: number) => {
      if (step(`write ${name}`) === 'do') return write(bytes, offset);
      await write(bytes.subarray(offset, offset + (bytes.length - offset) / 2), 0);
      throw new Error('crash');
    }) as never;
    return handle;
  });
  return log;
}
