/** The models know no browser, so their tests need none. */
export default {
  testMatch: ['<rootDir>/labextension/tests/**/*.spec.ts'],
  roots: ['<rootDir>/labextension'],
  reporters: ['default'],
  transform: {
    '^.+\\.tsx?$': [
      'ts-jest',
      { tsconfig: 'labextension/tests/tsconfig.json', isolatedModules: true }
    ]
  }
};
