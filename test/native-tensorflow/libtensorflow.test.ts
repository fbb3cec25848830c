import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from '../../src/native-tensorflow/libtensorflow';

let folder: string;

beforeEach(() => (folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'gradring-libtensorflow-')))));
afterEach(() => rmSync(folder, { recursive: true }));

function make(...files: string[]): void {
  for (const file of files) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), '');
  }
}

const HEADER = 'include/tensorflow/c/eager/c_api.h';

test('an unpacked libtensorflow', () => {
  make(HEADER, 'lib/libtensorflow.so', 'lib/libtensorflow.so.2', 'lib/libtensorflow_framework.so.2');
  expect(inspect(folder)).toEqual({
    includeDirectory: path.join(folder, 'include'),
    libraryDirectory: path.join(folder, 'lib'),
    library: 'libtensorflow.so.2',
    framework: 'libtensorflow_framework.so.2',
    isCuda: undefined,
  });
});

describe('a Python package', () => {
  const home = 'lib/python3.12/site-packages/tensorflow';

  beforeEach(() => {
    make(`${home}/${HEADER}`, `${home}/libtensorflow_cc.so.2`, `${home}/libtensorflow_framework.so.2`);
  });

  test.each([
    ['its environment', ''],
    ['its site-packages', 'lib/python3.12/site-packages'],
    ['its own folder', home],
  ])('is found by %s', (_, from) => {
    const found = inspect(path.join(folder, from));
    expect(found?.libraryDirectory).toBe(path.join(folder, home));
    expect(found?.library).toBe('libtensorflow_cc.so.2');
  });

  test.each([
    [`OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])`, false],
    [`OrderedDict([('is_rocm_build', False), ('is_cuda_build', True)])`, true],
    [`build_info = {}`, undefined],
  ])('tells of CUDA: %s', (text, isCuda) => {
    make(`${home}/python/platform/build_info.py`);
    writeFileSync(path.join(folder, home, 'python/platform/build_info.py'), text);
    expect(inspect(folder)?.isCuda).toBe(isCuda);
  });
});

test.each([
  ['an empty folder', []],
  ['headers alone', [HEADER]],
  ['libraries alone', ['lib/libtensorflow.so.2', 'lib/libtensorflow_framework.so.2']],
  ['one of two libraries', [HEADER, 'lib/libtensorflow.so.2']],
])('%s is none', (_, files) => {
  make(...files);
  expect(inspect(folder)).toBeUndefined();
});
