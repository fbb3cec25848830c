import { splitNodeOptions } from '../../src/launcher/node-options';
import { cleanUp, Program } from './support';

afterEach(cleanUp);

test.each([
  ['', []],
  ['--a', ['--a']],
  ['  --a  --b=1 -r x ', ['--a', '--b=1', '-r', 'x']],
  ['--title="two words" --b', ['--title=two words', '--b']],
  ['--empty=""', ['--empty=']],
])('%j is %j', (text, options) => {
  expect(splitNodeOptions(text, 'x')).toEqual(options);
});

test.each(['--title="a \\"b\\" \\\\ c"', '--title=a\\b', ' "--title=a  b"  ', '--title=a"b c"d'])(
  'Node reads NODE_OPTIONS alike: %s',
  async text => {
    const program = new Program(['-p', 'JSON.stringify([`--title=${process.title}`])'], { NODE_OPTIONS: text });
    await program.exited;
    expect(splitNodeOptions(text, 'x')).toEqual(JSON.parse(program.stdout));
  },
);

test('a quote without an end is refused', () => {
  const words = `--node-args is '--title="a b', in which a double quote has no end.`;
  expect(() => splitNodeOptions('--title="a b', '--node-args')).toThrow(words);
});
