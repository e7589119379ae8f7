import js from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      'labextension/src/conversion.ts',
      'labextension/src/gradcost/view.schema.ts'
    ]
  },
  js.configs.recommended,
  tseslint.configs.strict,
  jupyter.configs.recommended,
  {
    // All the extension's files together are 250 kB, from the user's own server.
    files: ['labextension/**'],
    rules: { 'jupyter/prefer-lazy-imports': 'off' }
  },
  {
    // These tests do without Galata, and press the menus that a user presses.
    files: ['ui-tests/**'],
    rules: { 'jupyter/galata-prefer-menu-helper': 'off' }
  },
  {
    files: ['**/*.cjs'],
    languageOptions: { sourceType: 'commonjs' },
    rules: { '@typescript-eslint/no-require-imports': 'off', 'no-undef': 'off' }
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    rules: {
      '@typescript-eslint/no-namespace': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      curly: 'error',
      eqeqeq: 'error'
    }
  }
);
