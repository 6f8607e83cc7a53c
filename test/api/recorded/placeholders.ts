/** The placeholders of an account's credentials in a recorded request, of the same length. */
export const placeholders = {
  clientId: 'cid_RecordedUser',
  clientSecret: 'Recorded-Secret_Recorded-Secret_Recorded-Se',
};
