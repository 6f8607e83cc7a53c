import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

/** A certificate with its key; `issue` makes another that it has signed. */
export type Certificate = ReturnType<typeof issueCertificate>;

interface Wanted {
  name: string;
  /** Names and IPv4 addresses (the name); none leaves the extension out. */
  names?: readonly string[];
  /** Days from now (-1 and 365). */
  fromDays?: number;
  untilDays?: number;
  isAuthority?: boolean;
  /** RSA of so many bits instead of an elliptic curve. */
  rsaBits?: number;
  /** OID of its only extended key usage, as DER. */
  usage?: string;
}

const der = (tag: number, ...parts: Buffer[]): Buffer => {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
};
const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const oid = (hex: string) => der(6, Buffer.from(hex, 'hex'));
const text = (tag: number, value: string) => der(tag, Buffer.from(value));
const nameOf = (name: string) => sequence(der(0x31, sequence(oid('550403'), text(0x0c, name))));
const extension = (id: string, value: Buffer) => sequence(oid(id), der(4, value));
const time = (days: number) =>
  text(0x18, `${new Date(Date.now() + days * 86_400_000).toISOString().replace(/[-:T]|\..*/g, '')}Z`);
/** With SHA-256. */
const algorithms = { ec: '2a8648ce3d040302', rsa: '2a864886f70d01010b' } as const;

/** Makes a certificate (RFC 5280), signed by `issuer` or by itself. */
export function issueCertificate(
  { name, names = [name], fromDays = -1, untilDays = 365, isAuthority = false, rsaBits, usage }: Wanted,
  issuer?: { name: string; key: string },
) {
  const pair: { publicKey: KeyObject; privateKey: KeyObject } =
    rsaBits === undefined
      ? generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
      : generateKeyPairSync('rsa', { modulusLength: rsaBits });
  const signer = issuer === undefined ? pair.privateKey : createPrivateKey(issuer.key);
  const algorithm = sequence(oid(algorithms[signer.asymmetricKeyType === 'rsa' ? 'rsa' : 'ec']));
  const alternatives = names.map((one) =>
    isIPv4(one) ? der(0x87, Buffer.from(one.split('.').map(Number))) : text(0x82, one),
  );
  const extensions = [
    ...(isAuthority ? [extension('551d13', sequence(der(1, Buffer.from([255]))))] : []),
    ...(names.length > 0 ? [extension('551d11', sequence(...alternatives))] : []),
    ...(usage === undefined ? [] : [extension('551d25', sequence(oid(usage)))]),
  ];
  const content = sequence(
    der(0xa0, der(2, Buffer.from([2]))),
    der(2, Buffer.from([1, ...crypto.getRandomValues(new Uint8Array(8))])),
    algorithm,
    nameOf(issuer?.name ?? name),
    sequence(time(fromDays), time(untilDays)),
    nameOf(name),
    pair.publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(3, Buffer.from([0]), sign('sha256', content, signer));
  const body = sequence(content, algorithm, signature).toString('base64');
  const key = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const cert = `-----BEGIN CERTIFICATE-----\n${body.replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`;
  return { name, key, cert, issue: (wanted: Wanted) => issueCertificate(wanted, { name, key }) };
}
