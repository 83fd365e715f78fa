"""Names of columns hint at persons and cases, in several languages, without false alarms."""

from __future__ import annotations

import pytest

from privaware.data._names import is_identifier_name, is_person_name

PERSONS = """
    Patientennummer MRN nhs_number pid PatNr hospital_number patientId Versichertennummer Fallnummer Aufnahme_Nr
    case_number customer KundenNr Kundennummer clienteID id_cliente IDPaciente numero_paciente Numéro_dossier
    numéro_de_sécurité_sociale codice_fiscale patiëntnummer rekeningnummer user_id accountNumber EmployeeNumber
    subject participant household_id Mitgliedsnummer phone_number email_address medical_record_number full_name
    study_number study_no Studiennummer Studien_Nr numero_estudio screening_number enrolment_no randomisation_number
    registrationNumber fake_first_name FakeLastName contact_given_name firstname fullname Vorname prénom apellidos
    achternaam cognome
    pidnum patno patient_no subjid usubjid subject_id casenum caseid id_patient studyid mrn_no hospnum emp_id member_id
    membership_no cust_id fallnr versnr nip dni custNo empno acct_id ptno subj_no resp_id hh_num
"""
OTHERS = """
    telephone pidgin rapid customer_rating n_patients paid humid valid patient_age number_of_patients phone_service
    has_phone member student visit_number subject_line household_size fall case hospital postal_code no_of_claims
    num_children number_of_accounts lipid employee_count code number
    study studies number_of_studies study_hours registration screening product_family_name file_name first_visit
    trial_number last_visit_number
    empty emp cust_type resp_rate hosp_days hosp_beds pt persistence memory_no_limit usr
"""


@pytest.mark.parametrize("name", PERSONS.split())
def test_name_of_persons_or_cases_is_a_hint(name: str) -> None:
    assert is_person_name(name)
    assert is_identifier_name(name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_name_of_a_feature_is_no_hint(name: str) -> None:
    assert not is_identifier_name(name)


def test_identifier_of_a_thing_names_no_person() -> None:
    for name in ("order_id", "hospital_id", "hosp_id", "invoice number", "loan_no", "uuid"):
        assert is_identifier_name(name)
        assert not is_person_name(name)
