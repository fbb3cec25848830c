import { installFake, load, testWithFakes, told, useDirectory, withoutBinding } from './backend-programs';

useDirectory();

// All else that may be there, and how it fails: test/slow/backend-choice.test.ts.
describe('a forced backend', () => {
  test.each(['wasm', 'cpu'])('%s, by the option, without noise', async name => {
    const result = await load(`{ backend: '${name}' }`);
    expect(result).toMatchObject({ name, current: name, sameModule: true, skipped: [], noise: '' });
    expect(result['reason']).toBe("asked for by the option 'backend'");
    expect(result['lines']).toEqual([expect.stringMatching(new RegExp(`runs on ${name}, asked for by the option`))]);
  });

  test('of an unknown name is an error that lists the names', async () => {
    const { code, message } = await load('{}', { GRADRING_BACKEND: 'webgl' });
    expect(code).toBe('ERR_BACKEND');
    expect(message).toMatch(/'webgl', asked for by GRADRING_BACKEND, .*tfjs-node-gpu, tfjs-node, wasm, cpu\./);
  });
});

describe('the order of the backends', () => {
  test('is tried until one serves, and says why those before did not', async () => {
    const result = await load('{}');
    const names = ['tfjs-node-gpu', 'tfjs-node', 'wasm', 'cpu'];
    const skipped = result['skipped'] as { name: string; why: string }[];
    expect(skipped.map(({ name }) => name)).toEqual(names.slice(0, names.indexOf(result['name'] as string)));
    for (const { name, why } of skipped) {
      expect(why).toContain(`@tensorflow/${name}`);
      expect((result['lines'] as string[])[0]).toContain(why);
    }
  });
});

testWithFakes(
  'a faster backend that is there but does not load is told on stderr, with the command that mends it',
  async () => {
    installFake('tfjs-node', withoutBinding);
    expect(await told()).toBe(
      'gradring: a faster backend than wasm did not load (GRADRING_BACKEND=wasm silences this line). ' +
        '@tensorflow/tfjs-node is installed without its native binding; ' +
        'run: npx gradring link-tensorflow --package tfjs-node\n',
    );
  },
);

test('a second call for another backend is an error', async () => {
  const before = "await loadBackend({ backend: 'cpu' });";
  const { code, message } = await load("{ backend: 'wasm' }", {}, before);
  expect(code).toBe('ERR_BACKEND');
  expect(message).toMatch(/'wasm' was asked for .* already runs on 'cpu'/);
});
