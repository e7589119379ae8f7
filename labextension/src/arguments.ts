import { ReadonlyJSONObject } from '@lumino/coreutils';

/** The JSON schema of a command's arguments, as `describedBy` wants it. */
export function argumentsOf(
  properties: ReadonlyJSONObject,
  required: string[] = []
): ReadonlyJSONObject {
  return { type: 'object', properties, required };
}
