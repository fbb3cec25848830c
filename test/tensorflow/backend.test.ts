import { installFake, load, run, testWithFakes, told, useDirectory, withoutBinding } from './backend-programs';

useDirectory();

// All else that may be there, and how it fails: test/slow/backend-choice.test.ts.
test.each(['wasm', 'cpu'])('a forced backend: %s, by the option, without noise', async name => {
  const result = await load(`{ backend: '${name}' }`);
  expect(result).toMatchObject({ name, current: name, sameModule: true, skipped: [], noise: '' });
  expect(result['reason']).toBe("asked for by the option 'backend'");
  expect(result['lines']).toEqual([expect.stringMatching(new RegExp(`runs on ${name}, asked for by the option`))]);
});

test('an unknown name is an error that lists the names, and so is a second call for another backend', async () => {
  const body = `
    const failures = [];
    const fail = options => loadBackend(options).catch(({ code, message }) => failures.push({ code, message }));
    await fail({});
    await loadBackend({ backend: 'cpu' });
    await fail({ backend: 'wasm' });
    console.log(JSON.stringify(failures));`;
  const { stdout } = await run(body, { GRADRING_BACKEND: 'webgl' });
  const [unknown, second] = [
    /'webgl', asked for by GRADRING_BACKEND, .*tfjs-node-gpu, tfjs-node, wasm, cpu\./,
    /'wasm' was asked for .* already runs on 'cpu'/,
  ].map(words => ({ code: 'ERR_BACKEND', message: expect.stringMatching(words) as string }));
  expect(JSON.parse(stdout)).toEqual([unknown, second]);
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
