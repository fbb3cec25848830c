const tseslint = require('typescript-eslint');

/**
 * The layers of src/, top first, and what each may import: only layers below it. The table of docs/architecture.md has
 * the same layers; test/lint compares the two.
 */
const LAYERS = {
  study: ['bench', 'charts', 'launcher'],
  bench: [
    'charts',
    'launcher',
    'communicator',
    'exchange',
    'collectives',
    'rendezvous',
    'memory',
    'wire',
    'compression',
    'kernels',
    'environment',
  ],
  // Over the rules of bench: it starts programs that have a backend.
  'bench/optimizer': ['launcher', 'tensorflow', 'communicator', 'exchange', 'compression'],
  charts: [],
  launcher: ['rendezvous', 'transport', 'environment'],
  doctor: ['native-tensorflow', 'rendezvous', 'transport', 'environment'],
  tensorflow: ['native-tensorflow', 'core', 'communicator', 'compression', 'checkpoint'],
  'native-tensorflow': [],
  core: ['communicator', 'exchange', 'compression', 'checkpoint'],
  communicator: [
    'comm-thread',
    'exchange',
    'collectives',
    'rendezvous',
    'memory',
    'wire',
    'kernels',
    'timeline',
    'environment',
  ],
  'comm-thread': [
    'exchange',
    'collectives',
    'rendezvous',
    'transport',
    'memory',
    'wire',
    'compression',
    'kernels',
    'timeline',
    'environment',
  ],
  exchange: ['collectives', 'transport', 'memory', 'wire', 'compression', 'kernels'],
  collectives: ['transport', 'memory', 'wire', 'compression', 'kernels'],
  rendezvous: ['transport', 'wire', 'environment'],
  transport: ['memory', 'wire'],
  memory: ['kernels'],
  wire: [],
  compression: ['kernels'],
  kernels: [],
  timeline: ['environment'],
  checkpoint: [],
  environment: [],
};

const layerRules = Object.entries(LAYERS).map(([layer, allowed]) => ({
  files: [`src/${layer}/**/*.ts`],
  rules: {
    'no-restricted-imports': [
      'error',
      {
        patterns: [
          {
            group: Object.keys(LAYERS)
              .filter(other => other !== layer && !allowed.includes(other))
              .flatMap(other => [`../${other}/*`, `../${other}`, `**/../${other}/**`]),
            message: `src/${layer} may import only from itself, errors and: ${allowed.join(', ') || 'nothing else'}.`,
          },
          { group: ['../index', '../common', '../cli'], message: 'Nothing imports the public entry points.' },
          { regex: '^(\\.\\./)+core$', message: 'Nothing imports the public entry points.' }, // but src/core/ may be
          ...(layer === 'tensorflow'
            ? []
            : [{ group: ['@tensorflow/*'], message: 'Only src/tensorflow imports TensorFlow.js.' }]),
          ...(layer === 'wire'
            ? []
            : [{ group: ['**/wire/generated/**'], message: 'Only src/wire imports the generated FlatBuffers code.' }]),
        ],
      },
    ],
  },
}));

const config = tseslint.config(
  { ignores: ['dist', 'coverage', 'src/wire/generated', 'src/*/assembly'] },
  ...tseslint.configs.recommended,
  {
    files: ['src/**/*.ts', 'test/**/*.ts'],
    // That project includes src/, so one program has the types of both.
    languageOptions: { parserOptions: { project: 'test/tsconfig.json', tsconfigRootDir: __dirname } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { disallowTypeAnnotations: false }],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
    },
  },
  // Code is as wide as Prettier makes it, which leaves comments alone.
  { rules: { 'max-len': ['error', { code: 1000, comments: 120, ignoreUrls: true }] } },
  { files: ['**/*.js'], rules: { '@typescript-eslint/no-require-imports': 'off' } },
  ...layerRules,
  {
    files: ['src/*.ts'],
    ignores: ['src/index.ts', 'src/core.ts', 'src/common.ts', 'src/cli.ts'],
    rules: {
      'no-restricted-imports': ['error', { patterns: [{ group: ['./*/*'], message: 'All layers may import this.' }] }],
    },
  },
);

module.exports = Object.assign(config, { LAYERS });
