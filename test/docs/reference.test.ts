import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { main } from '../../src/cli';
import { OWN_VARIABLES } from '../../src/environment/variables';
import { DOC_PAGES, readPage } from '../support/doc-pages';
import { CORE_EXPORTS, PUBLIC_EXPORTS } from '../support/public-api';

const SOURCE = path.join(__dirname, '../../src');

const read = (file: string): string => readFileSync(path.join(SOURCE, file), 'utf8');

/** All matches of a pattern, each once, in the order of the alphabet. */
const found = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([all, group]) => group ?? all))].sort();

test('the page of errors has a row for every code, and for no other', () => {
  const codes = found(read('errors.ts'), /^ {2}'(ERR_[A-Z_]+)',$/gm);
  expect(codes).toContain('ERR_PEER_LOST');
  expect(found(readPage('docs/reference/errors.md'), /^\| `(ERR_[A-Z_]+)` /gm)).toEqual(codes);
});

test('the list of variables and their page have every variable of the program, and no other', () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter(
    file => file.endsWith('.ts') && file !== path.join('environment', 'variables.ts'),
  );
  const variables = found(files.map(read).join(), /GRADRING_[A-Z_]+[A-Z]\b/g);
  expect(variables).toContain('GRADRING_BACKEND');
  expect(OWN_VARIABLES).toEqual(variables);
  const rows = readPage('docs/reference/environment-variables.md')
    .match(/^\| `.*$/gm)!
    .join('\n');
  expect(found(rows, /^\| `(GRADRING_[A-Z_]+)`/gm)).toEqual(variables);
});

test('the pages have the options of a rank as the program has them', () => {
  const script = path.join(SOURCE, '../scripts/reference-pages.js');
  const { stderr, status } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8', timeout: 60_000 });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
});

test('the overview of the API names everything that the package exports', () => {
  const page = readPage('docs/reference/api.md');
  const names = [...PUBLIC_EXPORTS, ...CORE_EXPORTS].map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['connect', 'Ring', 'CoreRing']));
  const isNamed = (name: string) => new RegExp(`\`${name}(?:\\(.*?\\))?\``).test(page);
  expect(names.filter(name => !isNamed(name))).toEqual([]);
});

test('gradring and gradring/core export the same things by the same names, except for connect', () => {
  const core = new Map(CORE_EXPORTS.map(({ name, ...from }) => [name, from]));
  const common = PUBLIC_EXPORTS.filter(({ name }) => core.has(name));
  const differing = common.filter(({ name, ...from }) => !isDeepStrictEqual(core.get(name), from));
  expect(differing.map(({ name }) => name)).toEqual(['connect']);
  const only = [...core].filter(([name]) => !common.some(each => each.name === name));
  expect(only.filter(([, { file }]) => !/\/core\/[\w-]+\.ts$/.test(file))).toEqual([]);
  expect(common.map(({ name }) => name)).toEqual(expect.arrayContaining(['dgc', 'lowRank', 'GradringError', 'launch']));
});

test('every file of the repository that the docs name is there', () => {
  const named = found(DOC_PAGES.map(readPage).join('\n'), /\b(?:src|test|scripts|schemas|docs)\/[\w./-]*\w(?!\*)/g);
  expect(named).toContain('src/exchange/routes/choose-route.ts');
  // `scripts/train/NAME.js` stands for any program there.
  expect(named.filter(file => !existsSync(path.join(SOURCE, '..', file)) && !file.includes('NAME'))).toEqual([]);
});

test('the glossary has at most 30 terms, each once', () => {
  const terms = [...readPage('docs/glossary.md').matchAll(/^\| \*\*(.*?)\*\*/gm)].map(([, term]) => term!);
  expect(terms).toContain('rank');
  expect(terms.length).toBeLessThanOrEqual(30);
  expect(new Set(terms).size).toBe(terms.length);
});

describe('the page of commands', () => {
  /** A command's help, and those of the commands within it. */
  async function helpsOf(...command: string[]): Promise<{ command: string; help: string }[]> {
    const print = jest.spyOn(console, 'log').mockImplementation();
    await main([...command, '--help']);
    const help = print.mock.calls.join('\n');
    print.mockRestore();
    const [, commands = ''] = /^Commands:\n(.*?)\n\n/ms.exec(help) ?? [];
    const within = found(commands, new RegExp(`^ +${['gradring', ...command].join(' ')} ([\\w-]+)`, 'gm'));
    const helps = [{ command: command.join(' '), help }];
    for (const name of within) helps.push(...(await helpsOf(...command, name)));
    return helps;
  }

  /** The options in a help, without those that every command has. */
  const optionsOf = (help: string): string[] =>
    found(/^Options:\n.*?(?=\n\n)/ms.exec(help)![0], /^ +(?:-\w, )?(--[\w-]+)/gm).filter(
      option => option !== '--help' && option !== '--version',
    );

  test('has every command with exactly its options', async () => {
    const page = readPage('docs/reference/cli.md');
    const sections = [...page.matchAll(/^## `gradring (.*?)`\n(.*?)(?=^## |$(?![^]))/gms)].map(([, name, text]) => ({
      name: name!,
      options: found(text!.match(/^\| `-.*?(?=\|)/gm)!.join('\n'), /`(--[\w-]+)`/g),
    }));
    expect(sections.map(({ name }) => name)).toContain('run');
    const helps = (await helpsOf()).filter(({ help }) => !/^Commands:$/m.test(help));
    for (const { name, options } of sections) {
      const own = helps.filter(({ command }) => command === name || command.startsWith(`${name} `));
      expect({ name, options }).toEqual({
        name,
        options: found(own.flatMap(each => optionsOf(each.help)).join('\n'), /.+/g),
      });
    }
    const documented = (command: string) => sections.some(({ name }) => `${command} `.startsWith(`${name} `));
    expect(helps.map(({ command }) => command).filter(command => !documented(command))).toEqual([]);
    for (const { command } of helps)
      expect(page).toContain(command.startsWith('bench ') ? `\`${command.slice(6)}\`` : `gradring ${command}`);
  });

  test('and every help has examples', async () => {
    const helps = await helpsOf();
    expect(helps.length).toBeGreaterThan(10);
    expect(helps.filter(({ help }) => !/^Examples:\n +gradring /m.test(help)).map(({ command }) => command)).toEqual(
      [],
    );
  });
});
