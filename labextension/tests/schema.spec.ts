import Ajv from 'ajv';

import { Conversion } from '../src/conversion';
import schema from '../../jupyter_hvd/conversion.schema.json';
import fixture from './conversion.json';

describe('the JSON form', () => {
  it('is what Python made and TypeScript reads', () => {
    const validate = new Ajv({ allowUnionTypes: true }).compile(schema);
    const conversion = fixture.conversion as Conversion;
    expect(validate(conversion) || validate.errors).toBe(true);
    expect(conversion.changes.length).toBeGreaterThan(3);
  });
});
