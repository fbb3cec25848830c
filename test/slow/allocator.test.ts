import { execFileSync } from 'node:child_process';
import { allocatorVariables } from '../../src/launcher/host-resources';
import { testWhere } from '../support/test-where';

const { glibcVersionRuntime } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } }).header;

testWhere(glibcVersionRuntime === undefined ? 'needs glibc' : undefined)(
  'a large array is not mapped anew each time',
  () => {
    const program = `
    const { setFlagsFromString } = require('node:v8');
    setFlagsFromString('--expose-gc');
    const collect = require('node:vm').runInNewContext('gc');
    const pages = 64 * 2 ** 20 / 4096;
    const touch = () => {
      const before = process.resourceUsage().minorPageFault;
      new Float64Array(pages * 512).fill(1);
      collect();
      return (process.resourceUsage().minorPageFault - before) / pages;
    };
    for (let i = 0; i < 4; i++) touch();
    console.log(Math.min(...Array.from({ length: 5 }, touch)));`;
    const faultsPerPage = (variables: Record<string, string>): number => {
      const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('MALLOC_'));
      const env = { ...Object.fromEntries(inherited), ...variables };
      return Number(execFileSync(process.execPath, ['-e', program], { env, encoding: 'utf8' }));
    };
    // Where pages are small this is 0 and 1; huge ones have fewer faults.
    expect(faultsPerPage(allocatorVariables({}))).toBeLessThan(faultsPerPage({}) / 5);
  },
);
