/** What a recorded request has in the place of an account's credentials: as long as those are. */
export const placeholders = {
  clientId: 'cid_RecordedUser',
  clientSecret: 'Recorded-Secret_Recorded-Secret_Recorded-Se',
};
