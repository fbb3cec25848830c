import { runInThisContext } from 'node:vm';

/**
 * The `process` of this thread. Test runners such as Jest give modules a copy of it, whose listeners never hear of the
 * end.
 */
export const thisProcess = runInThisContext('process') as NodeJS.Process;
